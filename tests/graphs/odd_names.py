"""A bare StateGraph whose nodes are called what no node is usually called."""

from itertools import pairwise
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from support.phrase_model import PhraseModel

NAMES = ["two words", "ünï 節点 🦜", "__x", "tools", "a/b.c{d}", "agent", "values", "messages"]
"""The last one answers; LangGraph reserves `:` and `|`, and its own `__start__` and `__end__`."""

_model = PhraseModel()


def _passing(name: str) -> Any:
    def passing(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"Passing {name}.")]}

    return passing


async def _answer(state: MessagesState) -> dict[str, Any]:
    return {"messages": await _model.ainvoke(state["messages"])}


_builder = StateGraph(MessagesState)
for _name in NAMES[:-1]:
    _builder.add_node(_name, _passing(_name))
_builder.add_node(NAMES[-1], _answer)
_builder.add_edge(START, NAMES[0])
for _before, _after in pairwise(NAMES):
    _builder.add_edge(_before, _after)
graph = _builder.compile()
