"""An agent that shows the images at the URLs in the ask, each as a part of its answer."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


def _show(state: MessagesState) -> dict[str, Any]:
    urls = state["messages"][-1].text.split()
    return {"messages": [AIMessage([{"type": "image", "url": url} for url in urls])]}


_pictures = StateGraph(MessagesState)
_pictures.add_node("show", _show)
_pictures.add_edge(START, "show")
graph = _pictures.compile()

ENTRY: dict[str, Any] = {"id": "pictures", "name": "Pictures", "class_path": "support.picture_agent:graph"}
