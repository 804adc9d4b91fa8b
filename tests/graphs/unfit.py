"""Graphs that can't be asked: without `messages` in the state, without them in the input, and a workflow of texts."""

from typing import Any, TypedDict

from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph


class Question(TypedDict):
    question: str


def _nothing(state: Any) -> dict[str, Any]:
    return {}


_without = StateGraph(Question)
_without.add_node("answer", _nothing)
_without.add_edge(START, "answer")
without_messages = _without.compile()


class Both(MessagesState):
    question: str


_not_in_input = StateGraph(Both, input_schema=Question)
_not_in_input.add_node("answer", _nothing)
_not_in_input.add_edge(START, "answer")
without_input = _not_in_input.compile()


@entrypoint()
async def workflow(question: str) -> str:
    return question
