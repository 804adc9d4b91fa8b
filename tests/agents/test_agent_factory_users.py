"""AgentFactory: whose tokens an agent and its tools see. Real graphs, with a tool that reads its runtime's context."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from support.recorded_agents import agent_factory, context_of, entry_of

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.offline.model import OfflineChatModel

USERS = [f"user{number}" for number in range(8)]


def whoami(runtime: ToolRuntime[RuntimeContext]) -> str:
    """Tell whose token is used, from a thread."""
    return f"{runtime.context.user_id} {runtime.context.access_token}"


def graph_with(tool: StructuredTool) -> CompiledGraph:
    return create_agent(OfflineChatModel(words_per_second=0), tools=[tool])


def tool_that_meets(everybody: asyncio.Barrier) -> StructuredTool:
    """A tool whose calls wait for each other, so that all users are within it at the same time."""

    async def meet(runtime: ToolRuntime[RuntimeContext]) -> str:
        """Tell whose token is used, before and after all others have come."""
        before = whoami(runtime)
        await everybody.wait()
        assert before == whoami(runtime)
        return before

    return StructuredTool.from_function(coroutine=meet)


async def results_of(agent: AgentFlow, message: str, exchange_id: str) -> list[str]:
    """The tools' results of one run."""
    config = RunnableConfig(configurable={"thread_id": exchange_id})
    results = []
    async for _, mode, payload in agent.astream_updates({"messages": [HumanMessage(message)]}, config):
        if mode == "updates":
            messages = [message for update in payload.values() for message in (update or {}).get("messages", [])]
            results += [message.text for message in messages if isinstance(message, ToolMessage)]
    return results


async def ask(factory: AgentFactory, entry: CatalogAgent, message: str, context: RuntimeContext) -> list[str]:
    async with factory.lease(entry, context) as warm:
        assert warm.flow.runtime_context is context
        return await results_of(warm.flow, message, context.exchange_id)


def shared_graph(tool: StructuredTool) -> CompiledGraph:
    return graph_with(tool)


def agent_class(tool: StructuredTool) -> type[AgentFlow]:
    class Meeting(AgentFlow):
        async def async_init(self) -> None:
            self.graph = graph_with(tool)

        def get_compiled_graph(self) -> CompiledGraph:
            return self.graph

    return Meeting


def function(tool: StructuredTool) -> Callable[[BaseChatModel], CompiledGraph]:
    return lambda model: create_agent(model, tools=[tool])


@pytest.mark.parametrize("target", [shared_graph, agent_class, function])
async def test_users_at_the_same_time_each_see_their_own_token(target: Callable[[StructuredTool], Any]) -> None:
    entry = entry_of(target(tool_that_meets(asyncio.Barrier(len(USERS)))))
    factory = agent_factory()
    contexts = [context_of(f"session of {user}", user_id=user, token=f"token of {user}") for user in USERS]
    results = await asyncio.gather(*(ask(factory, entry, "call meet()", context) for context in contexts))
    assert results == [[f"{user} token of {user}"] for user in USERS]


@pytest.mark.parametrize("target", [shared_graph, agent_class, function])
async def test_queries_at_the_same_time_each_see_their_own_token(target: Callable[[StructuredTool], Any]) -> None:
    entry = entry_of(target(tool_that_meets(asyncio.Barrier(len(USERS)))))
    factory = agent_factory()
    contexts = [context_of(None, user_id=user, token=f"token of {user}") for user in USERS]
    results = await asyncio.gather(*(ask(factory, entry, "call meet()", context) for context in contexts))
    assert results == [[f"{user} token of {user}"] for user in USERS]


async def test_the_runtime_context_is_refreshed_at_every_use() -> None:
    entry = entry_of(graph_with(StructuredTool.from_function(whoami)))
    factory = agent_factory()
    instances = set()
    for token in ("first", "second", None):
        context = context_of("s1", token=token)
        assert await ask(factory, entry, "call whoami()", context) == [f"user {token}"]
        async with factory.lease(entry, context) as warm:
            instances.add(warm.flow)
    assert len(instances) == 1
