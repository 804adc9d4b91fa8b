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

PAY = {"name": "pay", "args": {"amount": 5}, "description": "Pay it?"}
OTHER = {"name": "rest", "args": {}, "description": "Another call's words."}
REVIEW = {"action_name": "pay", "allowed_decisions": ["approve", "reject"]}
DETAILS = "Transfer $500 to Bob"
INBOX = {
    "action_request": {"action": "pay", "args": {"amount": 5}},
    "config": {"allow_accept": True, "allow_ignore": True},
    "description": "Pay it?",
}
CHOICE = {"id": "a", "label": "A"}
LONG_WHY = "why " * 2_000 + DETAILS

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

# All but the last two have more to decide on than the fields of their form.
of_call = _asking({"type": "tool_approval", **PAY, "description": LONG_WHY})
of_batch = _asking({"action_requests": [PAY, OTHER], "review_configs": [REVIEW], "details": DETAILS})
of_action = _asking({**INBOX, "details": DETAILS})
of_actions = _asking([{**INBOX, "details": DETAILS}])
of_choice = _asking({"question": "Which?", "choices": [{**CHOICE, "details": DETAILS}]})
of_options = _asking({"question": "Which?", "choices": [CHOICE], "options": [DETAILS]})
of_checkpoint = _asking({"question": "Which?", "checkpoint_id": DETAILS, "stage": [DETAILS]})
plain_batch = _asking({"action_requests": [PAY, OTHER], "review_configs": [REVIEW]})
plain_actions = _asking([INBOX])

only_edited = _asking({"action_requests": [PAY], "review_configs": [{**REVIEW, "allowed_decisions": ["edit"]}]})
undecidable = _asking({"action_requests": [PAY], "review_configs": []})

optional_boolean = _asking(
    "Sure?", response_schema={"anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}], "$defs": {"B": {"type": "boolean"}}}
)
optional_text = _asking("Which word?", response_schema={"type": ["string", "null"]})
optional_one_of = _asking("Which?", response_schema={"anyOf": [{"enum": ["red", "blue"]}, {"type": "null"}]})
constants = _asking("Which?", response_schema={"oneOf": [{"const": 1, "title": "One"}, {"const": 2}]})
too_many = _asking("Which?", response_schema={"enum": list(range(201))})
any_json = _asking("What?", response_schema={})

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
    "of_call",
    "of_batch",
    "of_action",
    "of_actions",
    "of_choice",
    "of_options",
    "of_checkpoint",
    "plain_batch",
    "plain_actions",
    "only_edited",
    "undecidable",
    "optional_boolean",
    "optional_text",
    "optional_one_of",
    "constants",
    "too_many",
    "any_json",
)
AGENTS: list[dict[str, Any]] = [{"id": name, "class_path": f"graphs.older_questions:{name}"} for name in _IDS]
