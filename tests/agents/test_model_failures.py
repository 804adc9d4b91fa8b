"""ModelFailures: an exception out of a graph is the model's fault only where it began in a model call. Real graphs."""

import asyncio
from typing import Any

import httpx
import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.models.model_failures import ModelFailures
from agentic_backend.errors import ModelError, ModelTimeout
from agentic_backend.testing import ScriptedModel

REQUEST = httpx.Request("POST", "http://provider.test/v1")


class ProviderFailure(Exception):
    pass


class ReadTimeout(ProviderFailure):
    """As providers name theirs; none shares a base class with another's."""


def failing_model(failure: Exception) -> ScriptedModel:
    return ScriptedModel(failure)


async def outcome(node: Any) -> tuple[ModelFailures, BaseException]:
    """The failures that were seen in the run of a graph with this node, and what came out of it."""
    graph = StateGraph(MessagesState)
    graph.add_node("answer", node)
    graph.add_edge(START, "answer")
    failures = ModelFailures()
    try:
        await graph.compile().ainvoke({"messages": [HumanMessage("hi")]}, RunnableConfig(callbacks=[failures]))
    except BaseException as error:
        return failures, error
    raise AssertionError("the graph fails")


def asking(model: ScriptedModel, *, threaded: bool = False) -> Any:
    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def answer_in_thread(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    return answer_in_thread if threaded else answer


@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize(
    ("failure", "typed"),
    [
        (ProviderFailure("quota"), ModelError),
        (ReadTimeout("slow"), ModelTimeout),
        (TimeoutError(), ModelTimeout),
        (openai.APITimeoutError(REQUEST), ModelTimeout),
        (openai.APIConnectionError(request=REQUEST), ModelError),
        (httpx.ConnectTimeout("slow"), ModelTimeout),
        (ValueError("a bug in the provider's package"), ModelError),
    ],
)
async def test_a_failure_of_the_model_is_typed(failure: Exception, typed: type[Exception], threaded: bool) -> None:
    failures, error = await outcome(asking(failing_model(failure), threaded=threaded))
    assert type(failures.typed(error)) is typed
    assert "quota" not in str(failures.typed(error))


async def test_a_failure_of_the_graph_is_not_the_models() -> None:
    def answer(state: MessagesState) -> dict[str, Any]:
        raise ProviderFailure("not from a model")

    failures, error = await outcome(answer)
    assert failures.typed(error) is None


async def test_a_failure_that_the_graph_has_caught_is_not_the_cause_of_a_later_one() -> None:
    model = failing_model(ProviderFailure())

    async def answer(state: MessagesState) -> dict[str, Any]:
        try:
            await model.ainvoke(state["messages"])
        except ProviderFailure:
            pass
        raise ValueError("the graph's own")

    failures, error = await outcome(answer)
    assert failures.typed(error) is None


@pytest.mark.parametrize("explicit", [True, False])
async def test_a_failure_that_the_graph_has_wrapped_is_the_models(explicit: bool) -> None:
    model = failing_model(ReadTimeout())

    async def answer(state: MessagesState) -> dict[str, Any]:
        try:
            await model.ainvoke(state["messages"])
        except ReadTimeout as failure:
            if explicit:
                raise ValueError("wrapped") from failure
            raise ValueError("wrapped")  # noqa: B904
        return {"messages": [AIMessage("never")]}

    failures, error = await outcome(answer)
    assert isinstance(failures.typed(error), ModelTimeout)


async def test_a_failure_within_a_group_is_the_models() -> None:
    model = failing_model(ProviderFailure())

    async def answer(state: MessagesState) -> dict[str, Any]:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(model.ainvoke(state["messages"]))
        return {}

    failures, error = await outcome(answer)
    assert isinstance(error, ExceptionGroup)
    assert isinstance(failures.typed(error), ModelError)


def test_causes_that_go_in_a_circle_come_to_an_end() -> None:
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    assert ModelFailures().typed(first) is None
