"""AgentFactory: what a class path may lead to, and what is told of it where it leads to nothing that can be served."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import FunctionType
from typing import Any, TypedDict

import pytest
from langchain_core.language_models import BaseChatModel
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph
from support.recorded_agents import agent_factory, agent_services, echoing_graph, entry_of, use

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.disclosure.exception_detail import detail_of
from agentic_backend.errors import AgentUnavailable
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.telemetry import JsonFormatter

GRAPH = echoing_graph()
CHEAP = OfflineChatModel(words_per_second=0)


class GraphAgent(AgentFlow):
    def get_compiled_graph(self) -> CompiledGraph:
        return GRAPH


def plain() -> CompiledGraph:
    return GRAPH


async def asynchronous() -> CompiledGraph:
    await asyncio.sleep(0)
    return GRAPH


def with_model(model: BaseChatModel) -> CompiledGraph:
    assert model is CHEAP
    return GRAPH


async def asynchronous_with_model(model: BaseChatModel) -> CompiledGraph:
    assert model is CHEAP
    return GRAPH


def with_a_model_if_there_is_one(model: BaseChatModel | None = None) -> CompiledGraph:
    assert model is CHEAP
    return GRAPH


class Maker:
    async def __call__(self) -> CompiledGraph:
        return GRAPH


@pytest.mark.parametrize(
    "target",
    [
        GRAPH,
        GraphAgent,
        plain,
        asynchronous,
        with_model,
        asynchronous_with_model,
        with_a_model_if_there_is_one,
        lambda: asynchronous(),
        Maker(),
    ],
)
async def test_everything_that_leads_to_a_graph_is_served(target: object) -> None:
    factory = agent_factory(services=agent_services(cheap=CHEAP))
    agent = await use(factory, entry_of(target, model="cheap"), "s1")
    assert agent.get_compiled_graph() is GRAPH
    assert agent.chat_model() is CHEAP


async def test_a_plain_function_does_not_run_in_the_event_loop() -> None:
    threads = []

    def blocking() -> CompiledGraph:
        threads.append(threading.current_thread())
        return GRAPH

    await use(agent_factory(), entry_of(blocking), "s1")
    assert threads != [threading.current_thread()]


class Other(TypedDict):
    text: str


class WithMessagesOnlyWithin(TypedDict):
    text: str
    messages: list[Any]


def graph_without_messages() -> CompiledGraph:
    graph = StateGraph(Other)
    graph.add_node("answer", lambda state: {"text": "x"})
    graph.add_edge(START, "answer")
    return graph.compile()


def graph_that_takes_no_messages() -> CompiledGraph:
    graph = StateGraph(WithMessagesOnlyWithin, input_schema=Other)
    graph.add_node("answer", lambda state: {"text": "x"})
    graph.add_edge(START, "answer")
    return graph.compile()


def fails() -> CompiledGraph:
    raise RuntimeError("the secret of the author")


def stops() -> CompiledGraph:
    raise StopIteration


class StopsWhenEntered(AbstractContextManager[CompiledGraph]):
    def __enter__(self) -> CompiledGraph:
        raise StopIteration

    def __exit__(self, *_: object) -> None: ...


class WithoutGraph(AgentFlow):
    def get_compiled_graph(self) -> CompiledGraph:
        return None  # type: ignore[return-value]


class Uncompiled(AgentFlow):
    def get_compiled_graph(self) -> CompiledGraph:
        return StateGraph(MessagesState)  # type: ignore[return-value]


class Elsewhere(AgentFlow):
    def get_compiled_graph(self) -> CompiledGraph:
        return RemoteGraph("assistant", url="http://localhost")  # type: ignore[return-value]


def yielding() -> Iterator[CompiledGraph]:
    yield GRAPH


class WithoutMessages(AgentFlow):
    def get_compiled_graph(self) -> CompiledGraph:
        return graph_without_messages()


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (lambda: None, "returned no graph"),
        (lambda: StateGraph(MessagesState), "could not be started"),
        (lambda: "a text", "returned no graph"),
        (fails, "could not be started"),
        (stops, "could not be started"),
        (lambda: StopsWhenEntered(), "could not be started"),
        (WithoutGraph, "returned no graph"),
        (WithoutMessages, "no 'messages' channel"),
        (graph_without_messages(), "no 'messages' channel"),
        (graph_that_takes_no_messages(), "no 'messages' in its input"),
    ],
)
async def test_what_is_no_agent_is_unavailable_and_says_why(
    target: Callable[[], object], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    factory = agent_factory()
    for _ in range(2):
        with pytest.raises(AgentUnavailable, match="'recorded'") as refusal:
            await use(factory, entry_of(target), "s1")
        assert told in str(refusal.value)
        assert "secret" not in str(refusal.value)
    assert "secret" not in "".join(map(JsonFormatter().format, caplog.records))


@pytest.mark.parametrize(
    ("target", "told", "function"),
    [
        (Uncompiled, "a StateGraph that is not compiled", Uncompiled.get_compiled_graph),
        (Elsewhere, "a RemoteGraph, which runs elsewhere", Elsewhere.get_compiled_graph),
        (yielding, "needs @contextmanager", yielding),
        (WithoutGraph, "a value of type NoneType", WithoutGraph.get_compiled_graph),
    ],
)
async def test_what_is_returned_instead_of_a_graph_is_named_with_the_authors_line(
    target: object, told: str, function: FunctionType
) -> None:
    with pytest.raises(AgentUnavailable) as refusal:
        await use(agent_factory(), entry_of(target), "s1")
    detail = detail_of(refusal.value)
    assert detail is not None and told in detail.text
    assert detail.where.endswith(f"{Path(__file__).name}:{function.__code__.co_firstlineno} in {function.__name__}")


async def test_a_model_that_is_not_there_makes_its_agent_unavailable() -> None:
    with pytest.raises(AgentUnavailable, match="'absent'"):
        await use(agent_factory(), entry_of(with_model, model="absent"), "s1")
