"""ServerSession: the session of one agent with one MCP server, during the agent's life.

One task owns it: it opens the session, reopens it after a loss, and closes it, since MCP requires that the task that
opened a session closes it. Calls come from other tasks; they use the live session, or fail at once if there is none.
Servers can't request sampling, elicitation or roots.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import httpx
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import ClientSession
from mcp.shared.exceptions import McpError
from mcp.shared.message import SessionMessage
from mcp.shared.session import ProgressFnT
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolRequest,
    CallToolResult,
    CancelledNotification,
    CancelledNotificationParams,
    ClientNotification,
    TextContent,
    Tool,
)

from agentic_backend.backoff import backoff
from agentic_backend.config.settings import McpServerSettings
from agentic_backend.errors import AgentUnavailable, TokenExpired, Unauthenticated
from agentic_backend.mcp.inbound import MOST_TOOLS, Inbound

log = logging.getLogger(__name__)

ReadStream = MemoryObjectReceiveStream[SessionMessage | Exception]
WriteStream = MemoryObjectSendStream[SessionMessage]
Streams = tuple[ReadStream, WriteStream]
OpenTransport = Callable[[Callable[[], None]], AbstractAsyncContextManager[Streams]]
"""Opens a connection; its argument is a callback for an answer that breaks off."""

_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.5, 30.0
_STEADY_S = 30.0
"""After a session of this length, the next loss counts as a new failure."""
_CLOSE_S = 6.0
"""How long a session may take to close before its task is cancelled once more."""
_NOTIFY_S = 1
"""Timeout of the notification about a cancelled call, in seconds: the server may no longer read."""
_MOST_PAGES = 100
"""Pages of a server's list of tools."""
_SESSION_GONE = "Session terminated"
"""The error of MCP's client for an HTTP 404: the server no longer knows the session."""
_REFUSALS = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)

_RESTARTING = "is not available; it is being restarted"
_REFUSED_USER = "refused the user"


class _LiveSession(ClientSession):
    """MCP's ClientSession, which also reports the end of its connection, and cancelled calls to the server."""

    def __init__(self, streams: Streams, wakeup: asyncio.Event, inbound: Inbound) -> None:
        super().__init__(*streams)
        self.has_ended = False
        """Whether the session is over: the server can't send anything more, or no longer knows it."""
        self._wakeup = wakeup
        """Wakes the owner once the session has ended."""
        self._inbound = inbound
        """Lets in only answers that are registered with it."""

    def end(self) -> None:
        self.has_ended = True
        self._wakeup.set()

    async def call(
        self, tool: str, arguments: dict[str, Any], report: ProgressFnT, meta: dict[str, Any] | None
    ) -> CallToolResult:
        """Call a tool; `report` gets its reports of progress before this returns the result."""
        # MCP's client gives the request this number, which is also its progress token. The client requests progress
        # because of the callback, but never calls it: `Inbound` does.
        async with self._inbound.progress.of(self._request_id, report):
            return await self.call_tool(tool, arguments, progress_callback=report, meta=meta)

    async def send_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Send a request. If it is cancelled, tell the server to stop its tool, which MCP's client doesn't do."""
        request_id = self._request_id
        try:
            with self._inbound.awaiting(request_id):
                return await super().send_request(request, *args, **kwargs)
        except asyncio.CancelledError:
            if isinstance(request.root, CallToolRequest) and not self.has_ended:
                await self._tell_cancelled(request_id)
            raise

    async def all_tools(self) -> list[Tool]:
        """The server's tools from all pages, at most MOST_TOOLS."""
        page = await self.list_tools()
        tools, pages = page.tools, 1
        while page.nextCursor and len(tools) < MOST_TOOLS and pages < _MOST_PAGES:
            page = await self.list_tools(cursor=page.nextCursor)
            tools, pages = tools + page.tools, pages + 1
        return tools[:MOST_TOOLS]

    async def _tell_cancelled(self, request_id: int) -> None:
        params = CancelledNotificationParams(requestId=request_id, reason="The result is no longer awaited.")
        notification = ClientNotification(CancelledNotification(params=params))
        # Shielded, because the enclosing scope is cancelled already.
        with (
            anyio.move_on_after(_NOTIFY_S, shield=True),
            contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError),
        ):
            await self.send_notification(notification)

    async def _validate_tool_result(self, name: str, result: CallToolResult) -> None:
        """Nothing: `Inbound` removes the schemas of results. MCP's client would list the tools to look for one."""

    async def _receive_loop(self) -> None:
        try:
            await super()._receive_loop()
        finally:
            self.end()


class ServerSession:
    def __init__(
        self,
        server_id: str,
        settings: McpServerSettings,
        open_transport: OpenTransport,
        inbound: Inbound,
        observe: Callable[[str, bool], None],
    ) -> None:
        self.server_id = server_id
        """The server's key in the settings, and its name in errors and metrics."""
        self.tools: list[Tool] = []
        """The tools of the first session."""
        self._open_transport = open_transport
        """Opens a new connection."""
        self._inbound = inbound
        """Filters the server's messages, on all its connections."""
        self._connect_timeout_s = settings.connect_timeout_s
        """Timeout of connecting, including the list of tools, and of a ping."""
        self._tool_timeout_s = settings.tool_timeout_s
        """Timeout of a call."""
        self._observe = observe
        """Called with the server's id and whether it is up."""
        self._owner: asyncio.Task[None] | None = None
        """The task that opens and closes the session; None before `open()`."""
        self._live: _LiveSession | None = None
        """The session that calls use now; None while there is none."""
        self._calls: set[anyio.CancelScope] = set()
        """The scopes of the running calls, which a loss cancels."""
        self._is_closing = False
        """Whether `aclose()` was called: the end is intended, and no session is reopened."""
        self._unavailable = self._says(_RESTARTING)
        """The error of a call while there is no session."""

    async def open(self) -> None:
        """Connect and list the tools. Raises AgentUnavailable, which names the server but no details."""
        opened = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(opened))
        # If the owner is cancelled first, this must not wait for good.
        self._owner.add_done_callback(lambda _: opened.cancel())
        await opened

    async def call_tool(
        self, name: str, arguments: dict[str, Any], *, progress_callback: ProgressFnT, meta: dict[str, Any] | None
    ) -> CallToolResult:
        """Call one of the server's tools, as ClientSession does, in the live session.

        `meta` becomes the request's `_meta`. A failure becomes an error result, in words for models and people. If the
        call is cancelled, the server is told to stop.
        """
        session = self._live
        if session is None:
            return _failed(self._unavailable)
        scope = anyio.move_on_after(self._tool_timeout_s)
        self._calls.add(scope)
        try:
            with scope:
                return await session.call(name, arguments, progress_callback, meta)
        except McpError as error:
            return _failed(self._said(error, session))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return _failed(self._unavailable)
        except (RuntimeError, ValueError):
            # MCP's client raises these if a result violates the protocol.
            return _failed(self._says("gave a result that can't be read"))
        finally:
            self._calls.discard(scope)
        if session is not self._live:
            return _failed(self._unavailable)
        return _failed(f"The tool did not end within {self._tool_timeout_s:g} seconds.")

    async def aclose(self) -> None:
        """Close the session, in its own task; running calls fail."""
        # From now on the owner opens no other session.
        self._is_closing = True
        owner = self._owner
        # The first cancellation makes the owner close its session: it says goodbye, ends a program, closes the
        # connection, and cancels the calls. The second is for a server that doesn't answer the goodbye.
        for _ in range(2):
            if owner is not None and not owner.done():
                owner.cancel()
                await asyncio.wait({owner}, timeout=_CLOSE_S)

    def _said(self, error: McpError, session: _LiveSession) -> str:
        """The text for a call's error; an error that reports a lost session ends the session."""
        if error.error.code == CONNECTION_CLOSED or error.error.message == _SESSION_GONE:
            session.end()
            return self._unavailable
        return error.error.message or "The tool failed."

    async def _own(self, opened: asyncio.Future[None]) -> None:
        loop, is_again = asyncio.get_running_loop(), False
        delays = backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        while not self._is_closing:
            began = loop.time()
            error = await self._serve(opened)
            if not opened.done():
                opened.set_exception(self._cannot_open(error))
                return
            if loop.time() - began > _STEADY_S:
                is_again, delays = False, backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
            self._note_loss(error, is_again)
            self._cut_calls()
            await asyncio.sleep(next(delays))
            is_again = True

    async def _serve(self, opened: asyncio.Future[None]) -> Exception | None:
        """Connect, and stay until the session is lost; return the cause if it is known."""
        try:
            async with self._connected() as (session, wakeup):
                if not opened.done():
                    opened.set_result(None)
                await self._until_it_ends(session, wakeup)
        except Exception as error:
            # Transports raise any error of their libraries, in groups: here all become one kind of failure.
            return error
        finally:
            if self._is_closing:
                self._cut_calls()
        return None

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[_LiveSession, asyncio.Event]]:
        wakeup = asyncio.Event()
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self._connect_timeout_s):
                streams = await stack.enter_async_context(self._open_transport(wakeup.set))
                session = await stack.enter_async_context(_LiveSession(streams, wakeup, self._inbound))
                await session.initialize()
                self.tools = self.tools or await session.all_tools()
            self._live, self._unavailable = session, self._says(_RESTARTING)
            self._observe(self.server_id, True)
            try:
                yield session, wakeup
            finally:
                self._live = None

    async def _until_it_ends(self, session: _LiveSession, wakeup: asyncio.Event) -> None:
        """Wait for the end of the session. Raises if the server is gone, or no longer knows the session."""
        while not session.has_ended:
            await wakeup.wait()
            wakeup.clear()
            if not session.has_ended:
                # An answer broke off. Only a ping can show before the next call whether the server has crashed.
                async with asyncio.timeout(self._connect_timeout_s):
                    await session.send_ping()

    def _cut_calls(self) -> None:
        """Cancel the calls of a lost session: a failed transport leaves its requests without an answer."""
        for scope in self._calls:
            scope.cancel()

    def _cannot_open(self, error: Exception | None) -> AgentUnavailable:
        log.warning("MCP server can't be reached", exc_info=_cause(error), extra={"mcp_server": self.server_id})
        return AgentUnavailable(self._says(_REFUSED_USER if self._refused_by(error) else "can't be reached"))

    def _note_loss(self, error: Exception | None, is_again: bool) -> None:
        if self._is_closing:
            return
        refused = self._refused_by(error)
        self._unavailable = self._says(_REFUSED_USER if refused else _RESTARTING)
        # If a server stays away, each agent logs only the first loss as a warning.
        level = logging.DEBUG if is_again else logging.WARNING
        fields = {"mcp_server": self.server_id, "refused": refused}
        log.log(level, "MCP session lost", exc_info=_cause(error), extra=fields)

    def _refused_by(self, error: Exception | None) -> bool:
        """Whether the server only refused the user; otherwise it is down, which is reported to `observe`."""
        if not (refused := _is_refusal(error)):
            self._observe(self.server_id, False)
        return refused

    def _says(self, what: str) -> str:
        return f"The MCP server '{self.server_id}' {what}."


def _failed(why: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=why)], isError=True)


def _cause(error: BaseException | None) -> BaseException | None:
    """The first exception of a group, since the log would not show what a group contains."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_refusal(error: BaseException | None) -> bool:
    """Whether the server, or the issuer of its tokens, refused the user's token."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_refusal, error.exceptions))
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in _REFUSALS
    return isinstance(error, Unauthenticated | TokenExpired)
