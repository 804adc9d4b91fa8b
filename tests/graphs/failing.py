"""Graphs that fail: a node that raises after its model has spoken, and a graph that never ends."""

from typing import Any

from langgraph.graph import START, MessagesState, StateGraph
from support.phrase_model import PhraseModel

_model = PhraseModel()


async def _answer(state: MessagesState) -> dict[str, Any]:
    answer = await _model.ainvoke(state["messages"])
    if state["messages"][-1].text.endswith("then fail"):
        raise ValueError("the secret of the node")
    return {"messages": [answer]}


_builder = StateGraph(MessagesState)
_builder.add_node("answer", _answer)
_builder.add_edge(START, "answer")
graph = _builder.compile()

_circle = StateGraph(MessagesState)
_circle.add_node("again", lambda state: {})
_circle.add_edge(START, "again")
_circle.add_edge("again", "again")
endless = _circle.compile().with_config(recursion_limit=20)
