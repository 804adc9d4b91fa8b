"""A graph that knows nothing of asyncio: nodes, model and tools all block their thread."""

import time
from collections.abc import Iterator
from typing import Any

from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from support.phrase_model import PhraseModel

BLOCKED_S = 0.3

speaking: set[object] = set()
"""The streams of the model that are open."""


class BlockingModel(PhraseModel):
    words_per_second: float = 200.0

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        stream = object()
        speaking.add(stream)
        try:
            yield from super()._stream(*args, **kwargs)
        finally:
            speaking.remove(stream)


@tool
def sleep(word: str) -> str:
    """Sleeps."""
    time.sleep(BLOCKED_S)
    return f"slept {word}"


_model = BlockingModel().bind_tools([sleep])


def _block(state: MessagesState) -> dict[str, Any]:
    time.sleep(BLOCKED_S)
    return {}


def _speak(state: MessagesState) -> dict[str, Any]:
    return {"messages": [_model.invoke(state["messages"])]}


_builder = StateGraph(MessagesState)
_builder.add_node("block", _block)
_builder.add_node("speak", _speak)
_builder.add_node("tools", ToolNode([sleep]))
_builder.add_edge(START, "block")
_builder.add_edge("block", "speak")
_builder.add_conditional_edges("speak", tools_condition)
_builder.add_edge("tools", "speak")
graph = _builder.compile()
