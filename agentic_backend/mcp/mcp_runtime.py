"""MCPRuntime: the MCP servers of one agent, and their tools.

An agent creates one in `async_init` and awaits `init()`; its `aclose()` ends the sessions. Sessions belong to the
agent, and so to one user's conversation, except with servers whose settings say `shared`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import httpx
from langchain_core.tools import BaseTool
from mcp.types import Tool

from agentic_backend.auth.user import Tokens
from agentic_backend.config.topics.mcp_servers import McpServerSettings
from agentic_backend.config.topics.permissions import needed_by
from agentic_backend.errors import AgentUnavailable
from agentic_backend.mcp import POLICY_NAMES, tool_name
from agentic_backend.mcp.apps.kept_resources import KeptResources
from agentic_backend.mcp.apps.ui_resources import is_for_apps, is_for_models
from agentic_backend.mcp.credentials import HasTokens, fixed_credentials, request_auth
from agentic_backend.mcp.http import sse, streamable_http
from agentic_backend.mcp.inbound import Inbound
from agentic_backend.mcp.server_session import OpenTransport, ServerSession
from agentic_backend.mcp.shared_sessions import SharedSessions
from agentic_backend.mcp.stdio import stdio
from agentic_backend.mcp.tools import AgentTools, AppTool, ToolRun, langchain_tools

log = logging.getLogger(__name__)


class ServerUse(Protocol):
    """An MCP server in an agent's tuning."""

    @property
    def id(self) -> str: ...
    @property
    def require_tools(self) -> Sequence[str]: ...
    @property
    def tools(self) -> Sequence[str] | None: ...


class Tuning(Protocol):
    @property
    def mcp_servers(self) -> Sequence[ServerUse]: ...


class Entry(Protocol):
    """An agent's catalog entry."""

    @property
    def id(self) -> str: ...


class McpServices(Protocol):
    """Services of the server: its MCP servers' settings, the sessions that agents share, the exchange of tokens, and a
    callback for servers' status."""

    @property
    def mcp_servers(self) -> Mapping[str, McpServerSettings]: ...
    @property
    def shared_mcp_sessions(self) -> SharedSessions: ...
    @property
    def exchange_token(self) -> Callable[[str, str], Awaitable[Tokens]]: ...
    @property
    def mcp_server_up(self) -> Callable[[str, bool], None]: ...


class McpRun(HasTokens, ToolRun, Protocol):
    """The part of a RuntimeContext that MCP servers are called with."""


class McpAgent(Protocol):
    """The part of an AgentFlow that its MCPRuntime uses. Each exchange has a new runtime context."""

    @property
    def settings(self) -> Entry: ...
    @property
    def tuning(self) -> Tuning: ...
    @property
    def services(self) -> McpServices: ...
    @property
    def runtime_context(self) -> McpRun: ...
    def chat_model(self) -> Any: ...


class MCPRuntime:
    def __init__(self, agent: McpAgent) -> None:
        self._agent = agent
        """The agent that uses the servers, in whose user's name the requests go out."""
        self._sessions: list[ServerSession] = []
        """One for each server whose session the agent has for itself, open until `aclose()`."""
        self._tools: list[BaseTool] = []
        """The tools of all servers."""
        self._resources = KeptResources()
        """The UI resources of the servers."""
        self._given = AgentTools(agent.settings.id, self._run, self._needed, self._resources)
        self._offering: dict[str, tuple[ServerUse, ServerSession]] = {}
        """The servers that are connected, by id."""

    async def init(self) -> None:
        """Connect to the agent's servers concurrently.

        Raises AgentUnavailable, which names the server that can't be reached or the tools that it lacks; then no
        session stays open.
        """
        uses = self._agent.tuning.mcp_servers
        try:
            outcomes = await asyncio.gather(*(self._open(use.id) for use in uses), return_exceptions=True)
            offers: list[tuple[ServerSession, Tool]] = []
            for use, outcome in zip(uses, outcomes, strict=True):
                if isinstance(outcome, BaseException):
                    raise outcome
                offers += [(outcome, tool) for tool in _offered(use, outcome.tools)]
                self._offering[use.id] = use, outcome
        except BaseException:
            await self.aclose()
            raise
        self._tools = langchain_tools(
            offers,
            self._given,
            model_sees_images=_sees_images(self._agent.chat_model()),
        )

    def get_tools(self) -> list[BaseTool]:
        """The tools of all servers, for a model to bind and a ToolNode to run. They outlive a server's restart."""
        return list(self._tools)

    def app_tool(self, server_id: str, name: str) -> AppTool | None:
        """The tool of this name at a server, for the server's UI resources; None if they may not call such a tool."""
        found = [(session, tool) for session, tool in self._for_apps() if session.server_id == server_id]
        named = [(session, tool) for session, tool in found if tool.name == name]
        # Of several with one name, nobody knows which one the server calls.
        if len(named) != 1 or [tool.name for tool in named[0][0].tools].count(name) > 1:
            return None
        [(session, tool)] = named
        return AppTool.of(session, tool, self._final_name(session, tool), self._given)

    def app_tools(self) -> list[BaseTool]:
        """The tools that UI resources may call, and no model."""
        return [
            AppTool.of(session, tool, self._final_name(session, tool), self._given)
            for session, tool in self._for_apps()
            if not is_for_models(tool)
        ]

    def _for_apps(self) -> Iterator[tuple[ServerSession, Tool]]:
        for use, session in self._offering.values():
            for tool in session.tools if session.shows_apps else ():
                if is_for_apps(tool) and (use.tools is None or tool.name in use.tools):
                    yield session, tool

    def _run(self) -> McpRun:
        return self._agent.runtime_context

    def _final_name(self, session: ServerSession, tool: Tool) -> str:
        """The one by which models call the tool; where they may not, one that no other server's tool has."""
        origin = f"{session.server_id}/{tool.name}"
        known = (one.name for one in self._tools if (one.metadata or {}).get(POLICY_NAMES, [""])[0] == origin)
        return next(known, tool_name(f"{session.server_id}_{tool.name}"))

    def _needed(self, server_id: str, names: Collection[str]) -> list[str]:
        """The permissions that the settings say a server's tool needs."""
        return needed_by(self._agent.services.mcp_servers[server_id].permissions, names)

    async def aclose(self) -> None:
        """Close the agent's own sessions concurrently, and end the processes that were started for them."""
        await self._resources.aclose()
        sessions, self._sessions = self._sessions, []
        await asyncio.gather(*(session.aclose() for session in sessions))

    async def _open(self, server_id: str) -> ServerSession:
        services = self._agent.services
        settings = services.mcp_servers.get(server_id)
        if settings is None:
            raise AgentUnavailable(f"There is no MCP server '{server_id}'.")
        if settings.shared:
            return await services.shared_mcp_sessions.open(server_id, lambda: self._session(server_id, settings))
        session = self._session(server_id, settings)
        self._sessions.append(session)
        await session.open()
        return session

    def _session(self, server_id: str, settings: McpServerSettings) -> ServerSession:
        services = self._agent.services
        credentials = fixed_credentials(settings)
        auth = request_auth(
            settings.auth,
            lambda: self._agent.runtime_context,
            services.exchange_token,
            settings.connect_timeout_s,
            credentials,
            may_renew=lambda: session.is_used,
        )
        inbound = Inbound(server_id, credentials)
        transport = transport_of(server_id, settings, auth, inbound)
        session = ServerSession(server_id, settings, transport, inbound, services.mcp_server_up)
        return session


def transport_of(
    server_id: str, settings: McpServerSettings, auth: httpx.Auth | None, inbound: Inbound
) -> OpenTransport:
    """The function that opens a new connection to the server."""
    match settings.transport:
        case "stdio":
            return partial(stdio, server_id, settings, inbound)
        case "sse":
            return partial(sse, settings, auth, inbound)
        case "streamable_http":
            return partial(streamable_http, settings, auth, inbound)


def _offered(use: ServerUse, tools: Sequence[Tool]) -> list[Tool]:
    """The tools that the agent's model gets. Raises AgentUnavailable if a required one is missing."""
    tools = [tool for tool in tools if is_for_models(tool)]
    names = {tool.name for tool in tools}
    if missing := [name for name in use.require_tools if name not in names]:
        raise AgentUnavailable(f"The MCP server '{use.id}' lacks the tools {', '.join(missing)}.")
    if use.tools is None:
        return list(tools)
    if unknown := [name for name in use.tools if name not in names]:
        log.warning("MCP server lacks tools", extra={"mcp_server": use.id, "tools": unknown})
    return [tool for tool in tools if tool.name in use.tools]


def _sees_images(model: Any) -> bool:
    """Whether LangChain's profile says that the model reads images in tool results; others refuse the request."""
    return bool((getattr(model, "profile", None) or {}).get("image_tool_message"))
