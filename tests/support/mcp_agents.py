"""Agents that use MCP servers, as an author would write them, and helpers to call their tools."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.auth.user import Tokens
from agentic_backend.config.topics.mcp_servers import McpServerSettings
from agentic_backend.mcp.mcp_runtime import MCPRuntime
from agentic_backend.mcp.shared_sessions import SharedSessions
from support.recorded_agents import agent_services, context_of, one_node

MODULE = "support.mcp_agents"
PATIENCE_S = 40


class ToolUser(AgentFlow):
    """A model with the tools of the entry's MCP servers."""

    async def async_init(self) -> None:
        self.mcp = MCPRuntime(agent=self)
        await self.mcp.init()
        self._graph = create_agent(self.chat_model(), tools=self.mcp.get_tools())

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


class Approving(ToolUser):
    """The same, asking a person where the entry says so."""

    async def async_init(self) -> None:
        self.mcp = MCPRuntime(agent=self)
        await self.mcp.init()
        tools = self.mcp.get_tools()
        self._graph = create_agent(self.chat_model(), tools=tools, middleware=self.approval_middleware())


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


class OwnTools(AgentFlow):
    """Tools that the author loads from the URL `server` with langchain-mcp-adapters: each call opens a session."""

    async def async_init(self) -> None:
        tools = await own_client(self).get_tools()
        self._graph = create_agent(self.chat_model(), tools=tools, middleware=self.approval_middleware())

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


class OwnSession(OwnTools):
    """The same tools, bound to one session, which the author keeps open for an exchange."""

    async def async_init(self) -> None:
        async def answer(state: Any) -> Any:
            async with own_client(self).session("own") as session:
                graph = create_agent(self.chat_model(), tools=await load_mcp_tools(session))
                return await graph.ainvoke(state)

        self._graph = one_node(answer)


def own_client(agent: AgentFlow) -> MultiServerMCPClient:
    """An author's client with the user's current token."""
    headers = {"Authorization": f"Bearer {agent.runtime_context.access_token}"}
    return MultiServerMCPClient({"own": {"transport": "http", "url": agent.tuned("server", ""), "headers": headers}})


Exchange = Callable[[str, str], Awaitable[Tokens]]


def tool_user(
    servers: dict[str, dict[str, Any]],
    *,
    uses: list[dict[str, Any]] | None = None,
    token: str | None = None,
    exchange: Exchange | None = None,
    model: BaseChatModel | None = None,
    observe: Callable[[str, bool], None] = lambda *_: None,
    shared: SharedSessions | None = None,
) -> ToolUser:
    """An unbuilt agent. `uses` are the MCP servers of its catalog entry, by default all `servers`.

    `shared` has the sessions that it shares with others.
    """
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
        shared_mcp_sessions=shared or services.shared_mcp_sessions,
    )
    return ToolUser(entry, services, context_of("session", token=token))


@asynccontextmanager
async def built(agent: ToolUser) -> AsyncIterator[ToolUser]:
    """Build the agent and close it afterwards, within PATIENCE_S in total."""
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
    """Call a tool that must succeed; return the text."""
    result = await call(agent, name, **args)
    assert result.status == "success", result.text
    return result.text


async def refused(agent: ToolUser, name: str, /, **args: Any) -> str:
    """Call a tool that must fail; return the text."""
    result = await call(agent, name, **args)
    assert result.status == "error", result.text
    return result.text


def _call(name: str, /, **args: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": f"call-{name}", "name": name, "args": args}
