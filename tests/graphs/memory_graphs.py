"""Graphs that change their own messages: what they leave is what they are given next.

The first word of the person's text says what the graph does; the answer tells what it had been given.
"""

import asyncio
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.channels import DeltaChannel
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict


def told(messages: Sequence[Any]) -> str:
    return " | ".join(f"{one.type}: {one.text or one.artifact}" for one in messages)


def _kept(messages: Sequence[Any]) -> str:
    """What a text does not tell of messages: their ids, and their content as it is."""
    return " | ".join(f"{one.type} {one.id}: {one.content!r} {getattr(one, 'artifact', None)!r}" for one in messages)


def _whole(messages: list[Any], word: str, answer: AIMessage) -> list[Any]:
    """What the graph wants its messages to be."""
    if word == "forget":
        messages = [one for one in messages if "pin" not in one.text]
    elif word == "clear":
        messages = []
    elif word == "trim":
        messages = messages[-1:]
    elif word == "brief":
        messages = [SystemMessage("In short: a brief"), *messages]
    elif word == "note":
        messages = [*messages, HumanMessage("a note"), SystemMessage("a rule")]
    return [*messages, answer]


def _answer(messages: list[Any]) -> tuple[str, AIMessage]:
    word = messages[-1].text.split()[0]
    telling = {"tell": told, "show": _kept}.get(word)
    return word, AIMessage(f"({telling(messages)})" if telling else f"did {word}")


def whole(state: Any) -> dict[str, Any]:
    """Returns all messages, as a graph does whose channel has no reducer."""
    messages = list(state["messages"] if isinstance(state, dict) else state.messages)
    word, answer = _answer(messages)
    if word == "fail":
        raise RuntimeError
    return {"messages": _whole(messages, word, answer)}


def changes(state: Any) -> dict[str, Any]:
    """Returns what is to change, as a graph does whose channel has the reducer `add_messages`."""
    messages = list(state["messages"] if isinstance(state, dict) else state.messages)
    word, answer = _answer(messages)
    if word == "fail":
        messages[0].content = "spoiled"
        raise RuntimeError
    update: list[BaseMessage] = [answer]
    if word == "forget":
        update = [RemoveMessage(one.id) for one in messages if "pin" in one.text] + update
    elif word in ("clear", "trim", "brief"):
        update = [RemoveMessage(REMOVE_ALL_MESSAGES), *_whole(messages, word, answer)]
    elif word == "note":
        update = [HumanMessage("a note"), SystemMessage("a rule"), answer]
    elif word == "dig":
        call = {"name": "dig", "args": {}, "id": f"call-{len(messages)}"}
        found = ToolMessage("", artifact={"coin": 1}, tool_call_id=call["id"], name="dig", id="found")
        digging = AIMessage([{"type": "text", "text": "digging"}], tool_calls=[call], id="digging")
        update = [digging, found, answer]
    elif word == "dangle":
        update = [AIMessage("dangling", tool_calls=[{"name": "dig", "args": {}, "id": "never"}])]
    return {"messages": update}


def overwrites(state: MessagesState) -> dict[str, Any]:
    return {"messages": Overwrite(whole(state)["messages"])}


def graph_of(state: Any, node: Any = changes, **schemas: Any) -> Any:
    return StateGraph(state, **schemas).add_node("answer", node).add_edge(START, "answer").compile()


class Plain(TypedDict):
    messages: list[Any]


class Added(TypedDict):
    messages: Annotated[list[Any], operator.add]


class Replaced(TypedDict):
    messages: Annotated[list[Any], lambda before, after: after]


def _merge(before: list[Any], writes: Sequence[Any]) -> list[Any]:
    for write in writes:
        before = add_messages(before, write)  # type: ignore[assignment, arg-type]
    return before


class Delta(TypedDict):
    messages: Annotated[list[Any], DeltaChannel(_merge)]


class Model(BaseModel):
    messages: Annotated[list[Any], add_messages]


@dataclass
class Data:
    messages: Annotated[list[Any], add_messages] = field(default_factory=list)


class Silent(TypedDict):
    answered: int


adds, overwriting = graph_of(MessagesState), graph_of(MessagesState, overwrites)
plain, replaced = graph_of(Plain, whole), graph_of(Replaced, whole)
delta, model, data = graph_of(Delta), graph_of(Model), graph_of(Data)
silent = graph_of(MessagesState, output_schema=Silent)
subgraph = StateGraph(MessagesState).add_node("inner", adds).add_edge(START, "inner").compile()

GRAPHS = ["adds", "overwriting", "plain", "replaced", "delta", "model", "data", "silent"]


def _summing(state: Added) -> dict[str, Any]:
    return {"messages": [_answer(state["messages"])[1]]}


summing = graph_of(Added, _summing)


def _ask(state: MessagesState) -> dict[str, Any]:
    text = state["messages"][-1].text
    return {"messages": [AIMessage(f"heard {interrupt('Well?')}")]} if text == "did forget" else {}


async def _hang(state: MessagesState) -> dict[str, Any]:
    if state["messages"][-1].text == "did forget":
        await asyncio.Event().wait()
    return {}


def _fail(state: MessagesState) -> dict[str, Any]:
    if state["messages"][-1].text == "did forget":
        raise RuntimeError
    return {}


def _then(node: Any) -> Any:
    graph = StateGraph(MessagesState).add_node("answer", changes).add_node("then", node)
    return graph.add_edge(START, "answer").add_edge("answer", "then").compile()


pausing, hanging, failing = _then(_ask), _then(_hang), _then(_fail)
