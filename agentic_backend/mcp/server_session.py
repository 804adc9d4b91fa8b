"""ServerSession: the session of one agent with one MCP server, for as long as the agent lives.

One task owns it: it opens the session, opens it again after a loss, and closes it, since MCP wants a session closed in
the task that opened it. Calls come from other tasks; they find the session that is live, or fail at once.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import httpx
from mcp.shared.exceptions import McpError
from mcp.types import CONNECTION_CLOSED, CallToolResult, Tool

from agentic_backend.errors import AgentUnavailable, TokenExpired, Unauthenticated
from agentic_backend.mcp.client_session import CancellingSession
from agentic_backend.mcp.inbound import Inbound
from agentic_backend.mcp.progress import Report
from agentic_backend.mcp.transport import OpenTransport

log = logging.getLogger(__name__)

_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.5, 30.0
# A session that lasted so long was a sound one: the next loss is not the same failure again.
_STEADY_S = 30.0
_CLOSE_S = 6.0
_LONGEST_ERROR = 2000
# What MCP's client makes of an HTTP 404: the server no longer knows the session.
_SESSION_GONE = "Session terminated"
_REFUSALS = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)

_RESTARTING = "is not available; it is being restarted"
_REFUSED_USER = "refused the user"


class ToolFailure(Exception):
    """Why a call has no result, in words that a model and a person may read."""


class ServerSession:
    """`tools` are those of the session that was opened first."""

    def __init__(
        self,
        server_id: str,
        open_transport: OpenTransport,
        inbound: Inbound,
        *,
        connect_timeout_s: float,
        tool_timeout_s: float,
        observe: Callable[[str, bool], None],
    ) -> None:
        self.server_id = server_id
        self.tools: list[Tool] = []
        self._open_transport = open_transport
        self._inbound = inbound
        self._connect_timeout_s = connect_timeout_s
        self._tool_timeout_s = tool_timeout_s
        self._observe = observe
        self._owner: asyncio.Task[None] | None = None
        self._live: CancellingSession | None = None
        self._calls: set[anyio.CancelScope] = set()
        self._is_closing = False
        self._unavailable = self._says(_RESTARTING)

    async def open(self) -> None:
        """Connect and learn the tools. Raises AgentUnavailable, which names the server and nothing of the reason."""
        opened = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(opened))
        # Where the owner is cancelled first, nobody waits for good.
        self._owner.add_done_callback(lambda _: opened.cancel())
        await opened

    async def call(
        self, tool: str, arguments: dict[str, Any], report: Report, meta: dict[str, Any] | None = None
    ) -> CallToolResult:
        """Call one of the server's tools, with `meta` as the request's `_meta`.

        Raises ToolFailure; cancelled, it tells the server to stop.
        """
        session = self._live
        if session is None:
            raise ToolFailure(self._unavailable)
        scope = anyio.move_on_after(self._tool_timeout_s)
        self._calls.add(scope)
        try:
            with scope:
                return await session.call(tool, arguments, report, meta)
        except McpError as error:
            raise ToolFailure(self._said(error, session)) from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise ToolFailure(self._unavailable) from error
        except (RuntimeError, ValueError) as error:
            # MCP's client raises these where a result is not what the protocol or the tool's own schema says.
            raise ToolFailure(self._says("gave a result that can't be read")) from error
        finally:
            self._calls.discard(scope)
        if session is not self._live:
            raise ToolFailure(self._unavailable)
        raise ToolFailure(f"The tool did not end within {self._tool_timeout_s:g} seconds.")

    async def aclose(self) -> None:
        """Close the session, in its own task; calls that still run fail."""
        self._is_closing = True
        owner = self._owner
        # The second cancellation is for a server that doesn't answer a goodbye.
        for _ in range(2):
            if owner is not None and not owner.done():
                owner.cancel()
                await asyncio.wait({owner}, timeout=_CLOSE_S)

    def _said(self, error: McpError, session: CancellingSession) -> str:
        """What a call's error means; one that tells of a lost session ends it."""
        if error.error.code == CONNECTION_CLOSED or error.error.message == _SESSION_GONE:
            session.end()
            return self._unavailable
        return error.error.message[:_LONGEST_ERROR] or "The tool failed."

    async def _own(self, opened: asyncio.Future[None]) -> None:
        loop, losses = asyncio.get_running_loop(), 0
        while not self._is_closing:
            began = loop.time()
            error = await self._serve(opened)
            if not opened.done():
                opened.set_exception(self._cannot_open(error))
                return
            if loop.time() - began > _STEADY_S:
                losses = 0
            self._note_loss(error, losses)
            self._cut_calls()
            await asyncio.sleep(retry_s(losses))
            losses += 1

    async def _serve(self, opened: asyncio.Future[None]) -> Exception | None:
        """Connect, and stay until the session is lost; what it was lost by, where that is known."""
        try:
            async with self._connected() as (session, stir):
                if not opened.done():
                    opened.set_result(None)
                await self._until_it_ends(session, stir)
        except Exception as error:
            # Transports raise whatever their libraries raise, in groups: this edge makes it one kind of failure.
            return error
        finally:
            if self._is_closing:
                self._cut_calls()
        return None

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[CancellingSession, asyncio.Event]]:
        stir = asyncio.Event()
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self._connect_timeout_s):
                read, write = await stack.enter_async_context(self._open_transport(stir.set))
                session = await stack.enter_async_context(CancellingSession(read, write, stir, self._inbound))
                await session.initialize()
                self.tools = self.tools or await session.all_tools()
            self._live, self._unavailable = session, self._says(_RESTARTING)
            self._observe(self.server_id, True)
            try:
                yield session, stir
            finally:
                self._live = None

    async def _until_it_ends(self, session: CancellingSession, stir: asyncio.Event) -> None:
        """Raises where the server is gone, or knows the session no more."""
        while not session.has_ended:
            await stir.wait()
            stir.clear()
            if not session.has_ended:
                # An answer broke off. Of a server that has crashed, nothing else would tell before the next call.
                async with asyncio.timeout(self._connect_timeout_s):
                    await session.send_ping()

    def _cut_calls(self) -> None:
        """End what waits for a session that is gone: a transport that fails leaves its requests without an answer."""
        for scope in self._calls:
            scope.cancel()

    def _cannot_open(self, error: Exception | None) -> AgentUnavailable:
        log.warning("MCP server can't be reached", exc_info=_cause(error), extra={"mcp_server": self.server_id})
        if self._refused_by(error):
            return AgentUnavailable(self._says(_REFUSED_USER))
        return AgentUnavailable(self._says("can't be reached"))

    def _note_loss(self, error: Exception | None, losses: int) -> None:
        if self._is_closing:
            return
        refused = self._refused_by(error)
        self._unavailable = self._says(_REFUSED_USER if refused else _RESTARTING)
        # Of a server that stays away, only the beginning is worth a line for each agent.
        level = logging.DEBUG if losses else logging.WARNING
        names = {"mcp_server": self.server_id, "refused": refused}
        log.log(level, "MCP session lost", exc_info=_cause(error), extra=names)

    def _refused_by(self, error: Exception | None) -> bool:
        """Whether it was only the user that the server refused; else it is down, and that is told."""
        refused = _is_refusal(error)
        if not refused:
            self._observe(self.server_id, False)
        return refused

    def _says(self, what: str) -> str:
        return f"The MCP server '{self.server_id}' {what}."


def _cause(error: BaseException | None) -> BaseException | None:
    """The first of a group of exceptions, of which a log would show nothing but that it is one."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_refusal(error: BaseException | None) -> bool:
    """Whether the server, or who issues tokens for it, did not take the user's token."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_refusal, error.exceptions))
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in _REFUSALS
    return isinstance(error, Unauthenticated | TokenExpired)


def retry_s(losses: int) -> float:
    """How long to wait after so many losses in a row, in seconds: longer each time, and never all agents at once."""
    longest_s: float = min(_LONGEST_RETRY_S, _FIRST_RETRY_S * 2 ** min(losses, 10))
    return random.uniform(longest_s / 2, longest_s)
