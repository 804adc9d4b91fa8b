"""Graphs that ask a person in different ways; each repeats what it was given, with its type."""

from typing import Any, Literal

from langchain_core.messages import AIMessage
from langgraph.graph import MessagesState
from langgraph.types import interrupt
from support.recorded_agents import one_node

from agentic_backend.agents.agent_flow import CompiledGraph


def _asking(*args: Any, **options: Any) -> CompiledGraph:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(repr(interrupt(*args, **options)))]}

    return one_node(ask)


def _twice(state: MessagesState) -> dict[str, Any]:
    first = interrupt("The first?")
    return {"messages": [AIMessage(repr((first, interrupt("The second?"))))]}


WITH_DETAILS = {"question": "Do it?", "details": "Transfer $500 to `Bob`\n    right now"}
LONG = "Is this all right? " + "word " * 2_000
MANY = {f"detail {number}": "x" * 50 for number in range(20)}
WITH_NOTES = {
    "stage": "review",
    "title": "The draft",
    "question": "Is it good?",
    "choices": [{"id": "good", "label": "Good"}, {"id": "bad", "label": "Bad", "default": True}],
    "free_text": True,
}

plain = _asking("What is your name?")
detailed = _asking(WITH_DETAILS)
long_text = _asking(LONG)
many_details = _asking(MANY)
with_notes = _asking(WITH_NOTES)
free_text = _asking({"question": "Anything else?", "free_text": True})
boolean = _asking("Sure?", response_schema=bool)
number = _asking("How many?", response_schema=int)
one_of = _asking("Which?", response_schema=Literal["red", "blue"])
text = _asking("Which word?", response_schema=str)
twice = one_node(_twice)

_IDS = (
    "plain",
    "detailed",
    "long_text",
    "many_details",
    "with_notes",
    "free_text",
    "boolean",
    "number",
    "one_of",
    "text",
    "twice",
)
AGENTS: list[dict[str, Any]] = [{"id": name, "class_path": f"graphs.older_questions:{name}"} for name in _IDS]
