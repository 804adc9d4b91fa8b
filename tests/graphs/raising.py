"""Graphs whose code raises, in the ways that the first word of a message names."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.runtime_context import RuntimeContext

LONG = 5_000


class DeskClosed(Exception):
    """An author's own exception."""


def plain(said: str) -> None:
    raise DeskClosed("the desk is closed")


class Misconfigured(BaseException):
    """As the errors of some libraries, which derive from no Exception."""


def derived(said: str) -> None:
    raise Misconfigured("no user id")


def caused(said: str) -> None:
    try:
        plain(said)
    except DeskClosed as error:
        raise LookupError("no desk") from error


def library(said: str) -> None:
    json.loads("{")


def quoting(said: str) -> None:
    raise ValueError(f"can't read {said!r}")


def distorting(said: str) -> None:
    raise ValueError(f"can't read {said!r} {json.dumps(said)} {said[:-2]} {said}s {said.upper()}")


def secret(said: str) -> None:
    raise ValueError("refused: Authorization: Bearer abcdefgh.12345678 and sk-quokkaberry-0123456789")


def unprintable(said: str) -> None:
    raise ValueError("x" * LONG + "\ud800")


class Uncaused(Exception):
    """An exception that can't be asked what caused it."""

    @property
    def __cause__(self) -> None:  # type: ignore[override]
        raise RuntimeError("no cause")

    __context__ = __cause__


def uncaused(said: str) -> None:
    raise Uncaused("the desk is closed")


class Closed(Exception):
    """An exception that can't be asked anything."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("not today")


def closed(said: str) -> None:
    raise Closed("the desk is closed")


async def group(said: str) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.to_thread(plain, said))


async def asking(said: str) -> None:
    interrupt("Shall it fail?")
    plain(said)


async def hearing(said: str) -> None:
    raise ValueError(f"can't read {interrupt('What was it?')}")


WAYS: dict[str, Callable[[str], Awaitable[None] | None]] = {
    way.__name__: way
    for way in (
        plain,
        derived,
        caused,
        library,
        quoting,
        distorting,
        secret,
        unprintable,
        uncaused,
        closed,
        group,
        asking,
        hearing,
    )
}


async def _answer(state: MessagesState, runtime: Runtime[RuntimeContext]) -> dict[str, Any]:
    said = state["messages"][-1].text
    if said.startswith("token"):
        raise ValueError(f"the token was {runtime.context.access_token}")
    if (way := WAYS.get(said.partition(" ")[0])) is not None:
        raised = way(said)
        if raised is not None:
            await raised
    return {"messages": [AIMessage("Nothing was raised.")]}


_builder = StateGraph(MessagesState)
_builder.add_node("answer", _answer)
_builder.add_edge(START, "answer")
graph = _builder.compile()


class FailsToStart(AgentFlow):
    async def async_init(self) -> None:
        plain("")

    def get_compiled_graph(self) -> CompiledGraph:
        return graph


ENTRIES: list[dict[str, Any]] = [
    {"id": "raising", "class_path": "graphs.raising:graph"},
    {"id": "fails-to-start", "class_path": "graphs.raising:FailsToStart"},
    {"id": "fails-to-import", "class_path": "graphs.raising_at_import:graph"},
]
