"""Graphs that ask a person, each in another form, and repeat the answer as JSON."""

import json
from datetime import date
from typing import Any, Literal

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel, Field

from agentic_backend.agents.agent_flow import CompiledGraph


class Address(BaseModel):
    street: str
    country: Literal["CH", "FR"] = "CH"


class Order(BaseModel):
    day: date
    extras: list[Literal["bike", "meal", "seat"]] = []
    invoice: Address
    gift: Address | None = None


class Booking(BaseModel):
    traveller: str = Field(title="Who travels?")
    seats: int = Field(description="At most four.", le=4)
    window: bool
    comfort: Literal["second", "first"] = "second"
    stops: list[str] = []
    note: str | None = None


def _asking(value: Any, response_schema: Any = None) -> CompiledGraph:
    def ask(state: MessagesState) -> dict[str, Any]:
        answer = interrupt(value, response_schema=response_schema)
        told = answer.model_dump(mode="json") if isinstance(answer, BaseModel) else answer
        return {"messages": [AIMessage(f"You said {json.dumps(told)}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    return graph.compile()


transfer = _asking({"question": "Shall I do it?", "details": "Transfer $500 to Bob", "account": {"iban": "DE02"}})
booking = _asking("Book a train", Booking)
order = _asking("What do you order?", Order)
name = _asking("What is your name?", {"type": "string"})
size = _asking({"question": "Which size?", "choices": [{"id": "s", "label": "Small"}, {"id": "l", "label": "Large"}]})
PAY = {"name": "pay", "args": {"amount": 5}, "description": "Pay it?"}
DETAILS = "Transfer $500 to Bob"
INBOX = {
    "action_request": {"action": "pay", "args": {"amount": 5}},
    "config": {"allow_accept": True, "allow_ignore": True},
    "description": "Pay it?",
}
CHOICE = {"id": "a", "label": "A"}
LONG_WHY = "why " * 2_000 + DETAILS

of_call = _asking({"type": "tool_approval", **PAY, "description": LONG_WHY})
of_batch = _asking({"action_requests": [PAY], "details": DETAILS})
of_action = _asking({**INBOX, "details": DETAILS})
of_actions = _asking([{**INBOX, "details": DETAILS}])
of_choice = _asking({"question": "Which?", "choices": [{**CHOICE, "details": DETAILS}]})
of_options = _asking({"question": "Which?", "choices": [CHOICE], "options": [DETAILS]})
plain_actions = _asking([INBOX])
preferences = _asking(
    "What do you prefer?",
    {
        "type": "object",
        "properties": {
            "window": {"type": "boolean"},
            "price": {"type": "number"},
            "remark": {"type": "string", "minLength": 0},
        },
        "required": ["price", "remark"],
    },
)
twins = _asking("Which?", {"oneOf": [{"const": 1, "title": "One"}, {"const": 2, "title": "One"}]})
yes_or_no = _asking("Is it raining?", {"type": "boolean"})
colour = _asking("Which colour?", {"enum": ["red", "green", 3]})

_NAMES = (
    *("transfer", "booking", "order", "name", "size", "yes_or_no", "colour", "preferences", "twins", "plain_actions"),
    *("of_call", "of_batch", "of_action", "of_actions", "of_choice", "of_options"),
)
ENTRIES: list[dict[str, Any]] = [{"id": name, "class_path": f"support.asking_agents:{name}"} for name in _NAMES]
