"""Functions that make a graph, in the forms of LangGraph Platform and with each argument that they can ask for."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph_sdk.runtime import ServerRuntime
from pydantic import BaseModel, ConfigDict

steps: list[str] = []
"""What the context managers have done."""


class Fields(BaseModel):
    model_config = ConfigDict(extra="forbid")

    greeting: str
    times: int = 1


def saying(text: str) -> StateGraph[Any]:
    async def say(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(text)]}

    graph = StateGraph(MessagesState)
    graph.add_node("say", say)
    graph.add_edge(START, "say")
    return graph


def _told(config: RunnableConfig) -> str:
    names = ("thread_id", "user_id", "assistant_id", "greeting")
    told = {name: config["configurable"].get(name) for name in names}
    user = config["configurable"]["langgraph_auth_user"]
    return f"{told} {user.identity} {user['identity']} {config['metadata']['graph_id']}"


def by_config(config: RunnableConfig) -> Any:
    return saying(_told(config)).compile()


async def by_config_later(cfg: RunnableConfig) -> Any:
    await asyncio.sleep(0)
    return saying(_told(cfg)).compile()


def uncompiled(config) -> Any:  # type: ignore[no-untyped-def]
    return saying(_told(config))


@asynccontextmanager
async def managed(config: RunnableConfig) -> AsyncIterator[Any]:
    # A cancel scope can be left only by the task that entered it.
    async with anyio.create_task_group() as tasks:
        steps.append("entered")
        tasks.start_soon(anyio.sleep_forever)
        yield saying(_told(config)).compile()
        tasks.cancel_scope.cancel()
    steps.append("left")


@contextmanager
def managed_in_thread() -> Iterator[Any]:
    assert threading.current_thread() is not threading.main_thread()
    steps.append("entered")
    yield saying("from a thread")
    steps.append("left")


held: list[asyncio.Event] = []
"""Lets the task group of each `dying` fail."""


@asynccontextmanager
async def dying() -> AsyncIterator[Any]:
    dies = asyncio.Event()
    held.append(dies)

    async def fail() -> None:
        await dies.wait()
        raise RuntimeError("the connection is gone")

    steps.append("entered")
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail)
            yield saying("alive").compile()
            tasks.cancel_scope.cancel()
    finally:
        steps.append("left")


may_enter = threading.Event()
"""Lets `slow_to_enter` be entered."""


@contextmanager
def slow_to_enter() -> Iterator[Any]:
    may_enter.wait(10)
    steps.append("entered")
    yield saying("from a thread")
    steps.append("left")


def with_listed_options(options: list[Fields] = []) -> Any:  # noqa: B006
    return saying(str(options)).compile()


@asynccontextmanager
async def managing_nothing() -> AsyncIterator[Any]:
    steps.append("entered")
    yield "no graph"
    steps.append("left")


@asynccontextmanager
async def failing() -> AsyncIterator[Any]:
    raise RuntimeError("a secret of the author")
    yield


@asynccontextmanager
async def endless() -> AsyncIterator[Any]:
    try:
        await asyncio.Event().wait()
        yield
    finally:
        steps.append("cancelled")


@asynccontextmanager
async def never_left() -> AsyncIterator[Any]:
    yield saying("I stay").compile()
    await asyncio.Event().wait()


def by_runtime(runtime: ServerRuntime[Any]) -> Any:
    return saying(f"{runtime.ensure_user().identity} {runtime.access_context}").compile()


def by_fields(settings: Fields, model: BaseChatModel, other: str = "default") -> Any:
    return saying(f"{settings.greeting * settings.times} {model.__class__.__name__} {other}").compile()


def by_plain_fields(*, fields: dict[str, Any]) -> Any:
    return saying(str(fields)).compile()


def by_model(llm) -> Any:  # type: ignore[no-untyped-def]
    return saying(type(llm).__name__).compile()
