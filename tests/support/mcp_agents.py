"""Agents that use MCP servers, as an author would write them, and what tests ask of their tools."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.catalog import AgentSettings
from agentic_backend.auth.user import Tokens
from agentic_backend.mcp.mcp_runtime import MCPRuntime
from agentic_backend.settings import McpServerSettings
from support.recorded_agents import agent_services, context_of

MODULE = "support.mcp_agents"
PATIENCE_S = 20


class ToolUser(AgentFlow):
    """A model with the tools of the entry's MCP servers."""

    async def async_init(self) -> None:
        self.mcp = MCPRuntime(agent=self)
        await self.mcp.init()
        self._graph = create_agent(self.chat_model(), tools=self.mcp.get_tools())

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


class Refresher(ToolUser):
    """Refreshes its user's token in the middle of the run, between two calls of `whoami`."""

    async def async_init(self) -> None:
        await super().async_init()
        assert self.mcp is not None
        [whoami] = self.mcp.get_tools()

        async def answer(state: Any) -> dict[str, Any]:
            before = await whoami.ainvoke(_call("whoami"))
            await self.refresh_user_access_token()
            after = await whoami.ainvoke(_call("whoami"))
            return {"messages": [("ai", f"{before.text}, then {after.text}")]}

        self._graph = one_node(answer)


def one_node(node: Any) -> CompiledGraph:
    graph = StateGraph(MessagesState)
    graph.add_node("answer", node)
    graph.add_edge(START, "answer")
    return graph.compile()


Exchange = Callable[[str, str], Awaitable[Tokens]]


def tool_user(
    servers: dict[str, dict[str, Any]],
    *,
    uses: list[dict[str, Any]] | None = None,
    token: str | None = None,
    exchange: Exchange | None = None,
    model: BaseChatModel | None = None,
    observe: Callable[[str, bool], None] = lambda *_: None,
) -> ToolUser:
    """An agent that is not built yet. `uses` are those of its catalog entry; else it uses all `servers`."""
    entry = AgentSettings.model_validate(
        {
            "id": "tool-user",
            "class_path": f"{MODULE}:ToolUser",
            "tuning": {"mcp_servers": uses or [{"id": server_id} for server_id in servers]},
        }
    )
    services = agent_services(**({"default": model} if model is not None else {}))
    services = replace(
        services,
        mcp_servers={server_id: McpServerSettings.model_validate(server) for server_id, server in servers.items()},
        mcp_server_up=observe,
        exchange_token=exchange or services.exchange_token,
    )
    return ToolUser(entry, services, context_of("session", token=token))


@asynccontextmanager
async def built(agent: ToolUser) -> AsyncIterator[ToolUser]:
    """The agent, built and then closed, within the time that a test has."""
    async with asyncio.timeout(PATIENCE_S):
        try:
            await agent.async_init()
            yield agent
        finally:
            await agent.aclose()


def tools_of(agent: ToolUser) -> list[str]:
    assert agent.mcp is not None
    return [tool.name for tool in agent.mcp.get_tools()]


async def call(agent: ToolUser, name: str, /, **args: Any) -> ToolMessage:
    """Call one of the agent's tools, as its graph would."""
    assert agent.mcp is not None
    [tool] = [tool for tool in agent.mcp.get_tools() if tool.name == name]
    result = await tool.ainvoke(_call(name, **args))
    assert isinstance(result, ToolMessage)
    return result


async def told(agent: ToolUser, name: str, /, **args: Any) -> str:
    """The text of a call that succeeds."""
    result = await call(agent, name, **args)
    assert result.status == "success", result.text
    return result.text


async def refused(agent: ToolUser, name: str, /, **args: Any) -> str:
    """The text of a call that fails."""
    result = await call(agent, name, **args)
    assert result.status == "error", result.text
    return result.text


def _call(name: str, /, **args: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": f"call-{name}", "name": name, "args": args}
