"""Graphs whose stored state holds types of the tests' own: one that they name, and one that they don't."""

from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


@dataclass
class Named:
    count: int


@dataclass
class Unnamed:
    words: str


class State(MessagesState):
    named: Named
    anything: Any


def _count(state: State) -> dict[str, Any]:
    count = state["named"].count + 1 if "named" in state else 1
    asked = state["messages"][-1].text
    loose = {"anything": Unnamed("private words")} if "unnamed" in asked else {}
    return {"named": Named(count), **loose}


def _answer(state: State) -> dict[str, Any]:
    told = interrupt("Well?") if "wait" in state["messages"][-1].text else ""
    return {"messages": [AIMessage(f"{state['named'].count} {state.get('anything')} {told}".strip())]}


_builder = StateGraph(State).add_node("count", _count).add_node("answer", _answer)
graph = _builder.add_edge(START, "count").add_edge("count", "answer").compile()
