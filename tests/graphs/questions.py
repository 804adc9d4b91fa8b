"""Graphs that ask a person, in the forms in which LangGraph's users do."""

import json
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Annotated, Any, Literal

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send, interrupt
from pydantic import BaseModel, Field, field_validator
from support.approval_agents import CallingModel
from typing_extensions import TypedDict

from agentic_backend.agents.agent_flow import CompiledGraph

TRANSFER = {"question": "Shall I go on?", "details": "Transfer $500 to Bob", "account": {"iban": "DE02"}}


def _one_node(node: Callable[[MessagesState], Any]) -> CompiledGraph:
    graph = StateGraph(MessagesState)
    graph.add_node("ask", node)
    graph.add_edge(START, "ask")
    return graph.compile()


def _repeating(value: Any, response_schema: Any = None) -> CompiledGraph:
    """Asks once, and says as JSON, and by its type, what it has been answered."""

    def ask(state: MessagesState) -> dict[str, Any]:
        answer = interrupt(value, response_schema=response_schema)
        told = answer.model_dump(mode="json") if isinstance(answer, BaseModel) else answer
        return {"messages": [AIMessage(f"{type(answer).__name__} {json.dumps(told)}")]}

    return _one_node(ask)


numbers = _repeating({"question": "How many?", "options": [1, 2, 3]})
truths = _repeating({"question": "Rain?", "choices": [True, False]}, {"type": "boolean"})
named = _repeating({"question": "Which?", "options": [{"value": "a"}, {"value": "b", "name": "B"}]})
unnamed = _repeating({"question": "Which?", "options": [{"colour": "red"}, {"colour": "blue"}]})
lost = _repeating("Where?", {"properties": {"to": {"$ref": "#/$defs/Lost"}}})
elsewhere = _repeating("Where?", {"$ref": "https://example.org/schema"})
no_schema = _repeating("Where?", {"type": "object", "properties": 7})
no_type = _repeating("Where?", {"type": "place"})
_LEVELS = {f"l{number}": {"allOf": [{"$ref": f"#/$defs/l{number + 1}"}] * 2} for number in range(40)}
doubling = _repeating("Where?", {"$defs": {**_LEVELS, "l40": {"type": "string"}}, "$ref": "#/$defs/l0"})
within_itself = _repeating("Where?", {"properties": {"via": {"$ref": "#"}, "to": {"type": "string"}}})
no_form = _repeating("Where?", Callable[[], str])
no_data = _repeating("Where?", CompiledGraph)
huge = _repeating("x", {"type": "string", "enum": ["y" * 100_000]})


class Seat(BaseModel):
    row: int = Field(ge=1)
    window: bool = False


class Booking(BaseModel):
    city: Literal["Rome", "Paris"]
    when: date
    seats: list[Seat] = []

    @field_validator("when")
    @classmethod
    def is_no_first_of_april(cls, when: date) -> date:
        if (when.month, when.day) == (4, 1):
            raise ValueError("no train runs on the first of April")
        return when


class Stay(TypedDict):
    nights: int
    hotel: str


@dataclass
class Trip:
    to: str
    days: timedelta
    with_: set[str] = field(default_factory=set)


ODD = {
    "trip": Trip("Rome", timedelta(days=2), {"Bob", "Ann"}),
    "seat": Seat(row=3),
    "when": date(2026, 5, 1),
    "ticket": b"\xff\x00",
    "code": b"abc",
    "asked": HumanMessage("to Rome", id="m1"),
    "big": 2**63,
    "none": None,
    "float": float("nan"),
    3: True,
}

transfer = _repeating(TRANSFER)
plain_text = _repeating("Your name?")
booking = _repeating("Book a train", Booking)
stay = _repeating({"prompt": "Where?"}, Stay)
plain_schema = _repeating("How many?", {"type": "integer", "minimum": 1})
odd = _repeating(ODD)
large = _repeating({"question": "All of it?", "text": "ä" * 100_000})


def _thrice(state: MessagesState) -> dict[str, Any]:
    answers = [interrupt(f"Question {number}?") for number in (1, 2, 3)]
    return {"messages": [AIMessage(" ".join(answers))]}


def _until_valid(state: MessagesState) -> dict[str, Any]:
    question, tries = "How old are you?", 0
    while not isinstance(age := interrupt(question), int) or age < 0:
        question, tries = f"{age!r} is no age. How old are you?", tries + 1
    return {"messages": [AIMessage(f"{age} after {tries}")]}


thrice, until_valid = _one_node(_thrice), _one_node(_until_valid)


class Parallel(MessagesState):
    heard: Annotated[list[str], operator.add]


def _parallel() -> CompiledGraph:
    """Two nodes at once, each of which asks twice; and one that asks nothing and counts its runs."""

    def asks(name: str) -> Callable[[Parallel], dict[str, Any]]:
        return lambda state: {"heard": [f"{name}: {interrupt(f'{name} 1?')}, {interrupt(f'{name} 2?')}"]}

    graph = StateGraph(Parallel)
    for name in ("left", "right"):
        graph.add_node(name, asks(name))
        graph.add_edge(START, name)
    graph.add_node("silent", lambda state: {"heard": ["silent"]})
    graph.add_edge(START, "silent")
    graph.add_node("tell", lambda state: {"messages": [AIMessage("; ".join(sorted(state["heard"])))]})
    graph.add_edge(["left", "right", "silent"], "tell")
    return graph.compile()


def _many() -> CompiledGraph:
    """Three runs of one node by `Send`, in a subgraph; the second asks again."""

    class One(TypedDict):
        number: int

    def ask(state: One) -> dict[str, Any]:
        heard = interrupt({"question": f"Number {state['number']}?", "number": state["number"]})
        if state["number"] == 2:
            heard = f"{heard}, {interrupt('Really?')}"
        return {"heard": [f"{state['number']}: {heard}"]}

    inner = StateGraph(Parallel)
    inner.add_node("ask", ask)
    inner.add_conditional_edges(START, lambda state: [Send("ask", {"number": number}) for number in (1, 2, 3)], ["ask"])
    inner.add_edge("ask", END)
    graph = StateGraph(Parallel)
    graph.add_node("sub", inner.compile())
    graph.add_node("tell", lambda state: {"messages": [AIMessage("; ".join(sorted(state["heard"])))]})
    graph.add_edge(START, "sub")
    graph.add_edge("sub", "tell")
    return graph.compile()


parallel, many = _parallel(), _many()


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    account = interrupt({"question": "From which account?", "amount": amount})
    sure = interrupt({"question": "Sure?", "amount": amount, "account": account})
    return f"paid {amount} from {account}: {sure}"


asking_tool = create_agent(CallingModel(), tools=[pay])


@tool
def send(to: str) -> str:
    """Send an email."""
    return f"sent to {to}"


def _question_then_batch() -> CompiledGraph:
    """Asks a question; the agent then asks for the approval of a batch of calls, in the middleware's batched form."""
    allowed = InterruptOnConfig(allowed_decisions=["approve", "reject", "edit"])
    inner = create_agent(
        CallingModel(), tools=[send], middleware=[HumanInTheLoopMiddleware[Any, Any, Any]({"send": allowed})]
    )

    def ask(state: MessagesState) -> dict[str, Any]:
        interrupt("Shall I begin?")
        return {}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("agent", inner)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "agent")
    return graph.compile()


question_then_batch = _question_then_batch()
