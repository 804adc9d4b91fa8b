"""ServerSession: the session with one MCP server, of one agent or shared by all.

One task owns it: it opens the session, reopens it after a loss, ends it when nobody calls for long, and closes it,
since MCP requires that the task that opened a session closes it. Calls come from other tasks. They use the live
session; they open it anew if it rests; after a loss they fail at once until it is open again. Servers can't request
sampling, elicitation or roots.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import Context
from enum import Enum, auto
from typing import Any, TypeVar

import anyio
import httpx
from mcp.shared.exceptions import McpError
from mcp.shared.session import ProgressFnT
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolResult,
    Tool,
)
from pydantic import AnyUrl

from agentic_backend.backoff import backoff
from agentic_backend.config.topics.mcp_servers import McpServerSettings
from agentic_backend.errors import AgentUnavailable, AuthUnavailable, TokenExpired, Unauthenticated
from agentic_backend.loop.loop_load import served_timeout, served_timer
from agentic_backend.mcp.apps.app_hosts import allowed_hosts, lacking_hosts
from agentic_backend.mcp.apps.ui_resources import UiResource, ui_resource_of
from agentic_backend.mcp.credentials import REFUSALS, refusal, unasked
from agentic_backend.mcp.failed_call import FailedCall, failed, unsendable
from agentic_backend.mcp.inbound import Inbound
from agentic_backend.mcp.live_session import LiveSession, Streams
from agentic_backend.mcp.usable_tools import usable_tools
from agentic_backend.system_errors import summary_of
from agentic_backend.telemetry.ids import log_ids, logged_with
from agentic_backend.tracing.spans import CLIENT, sent_on, spanned

log = logging.getLogger(__name__)

OpenTransport = Callable[[Callable[[], None]], AbstractAsyncContextManager[Streams]]
"""Opens a connection; its argument is a callback for an answer that breaks off."""

_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.5, 30.0
_STEADY_S = 30.0
"""After a session of this length, the next loss counts as a new failure."""
_CLOSE_S = 6.0
"""How long a session may take to close before its task is cancelled once more."""
_SESSION_GONE = "Session terminated"
"""The error of MCP's client for an HTTP 404: the server no longer knows the session."""

_RESTARTING = "is not available; it is being restarted"

R = TypeVar("R")


class _State(Enum):
    LIVE = auto()
    """Calls use the session."""
    RESTING = auto()
    """The session ended because nobody called, or for lack of a token of the user. The next call opens it."""
    WAKING = auto()
    """A call has come, and waits with others until the session is open again."""
    LOST = auto()
    """Calls fail: the session is being opened again after a loss, is not open yet, or is closed for good."""


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
        """The server's tools that models can be given: for one agent those of the first session, and of the latest one
        if it is shared."""
        self.left_out: Mapping[str, str] = {}
        """Why each other tool was left out, by its name."""
        self._open_transport = open_transport
        """Opens a new connection."""
        self._auth = settings.auth
        """What its requests carry."""
        self._inbound = inbound
        """Filters the server's messages, on all its connections."""
        self._connect_timeout_s = settings.connect_timeout_s
        """Timeout of connecting, including the list of tools, and of a ping."""
        self._tool_timeout_s = settings.tool_timeout_s
        """Timeout of a call."""
        self._facts = {
            "mcp.method.name": "tools/call",
            "gen_ai.operation.name": "execute_tool",
            "agentic.mcp.server": server_id,
            "network.transport": "pipe" if settings.transport == "stdio" else "tcp",
        }
        """What each of its spans says."""
        self._idle_s = settings.idle_s if settings.transport == "stdio" else None
        """How long the session stays open without a call, in seconds; None: for good."""
        self.shows_apps = settings.apps
        """Whether results are shown in the server's UI resources."""
        self._app_hosts = settings.app_hosts
        """What those may load from and talk to."""
        self._is_shared = settings.shared
        """Whether agents come and go while the session stays."""
        self._observe = observe
        """Called with the server's id and whether it is up."""
        self._opened: asyncio.Future[None] | None = None
        """Done once the first session is open, or can't be opened; None before `open()`."""
        self._opener: Mapping[str, object] = {}
        """The ids of what has opened it."""
        self._owner: asyncio.Task[None] | None = None
        """The task that opens and closes the session; None before `open()`."""
        self._state = _State.LOST
        """What a call meets."""
        self._live: LiveSession | None = None
        """The session that calls use now; None in any state but LIVE."""
        self._wake, self._awake = asyncio.Event(), asyncio.Event()
        """A call tells the owner by the first that it needs a session; the owner tells calls by the second that it is
        open."""
        self.connection = 0
        """The number of the connection, the last one if there is none."""
        self._calls: set[anyio.CancelScope] = set()
        """The scopes of the running calls, also of those that wait for a session; a loss cancels them."""
        self._used_at = 0.0
        """When the session was opened or the last call ended, in the event loop's time."""
        self._is_closing = False
        """Whether `aclose()` was called: the end is intended, and no session is reopened."""
        self._unavailable = self._says(_RESTARTING)
        """The error of a call while there is no session."""

    async def open(self) -> None:
        """Connect and list the tools, once for all callers.

        Raises AgentUnavailable, which names the server but no details.
        """
        if self._opened is None:
            opened = self._opened = asyncio.get_running_loop().create_future()
            # For the lines about the opening: they belong to the exchange that waits for it.
            self._opener = log_ids()
            # In an empty context: the task may outlive the run that opens the session, and belongs to no run.
            self._owner = asyncio.create_task(self._own(opened), context=Context())
            # If the owner is cancelled first, nobody must wait for good.
            self._owner.add_done_callback(lambda _: opened.cancel())
            opened.add_done_callback(lambda _: opened.cancelled() or opened.exception())
        # Shielded, because other agents may wait for it too.
        await asyncio.shield(self._opened)

    @property
    def is_used(self) -> bool:
        """Whether a call runs, or an agent waits for its start."""
        return bool(self._calls) or (self._opened is not None and not self._opened.done())

    async def call_tool(
        self, name: str, arguments: dict[str, Any], *, progress_callback: ProgressFnT, meta: dict[str, Any] | None
    ) -> CallToolResult:
        """Call one of the server's tools, as ClientSession does, in the live session; open it if it rests.

        `meta` becomes the request's `_meta`. A failure becomes an error result, in words for models and people. If the
        call is cancelled, the server is told to stop.
        """
        with spanned(f"tools/call {name}", CLIENT, {**self._facts, "gen_ai.tool.name": name}) as span:
            sent = {**(meta or {}), **sent_on()} or None
            result: CallToolResult | None = unsendable(arguments, sent)
            if result is None:
                result = await self._call(lambda session: session.call(name, arguments, progress_callback, sent))
            if span is not None and result.isError:
                span.fail(result.reason if isinstance(result, FailedCall) else "tool_error")
        if isinstance(result, FailedCall):
            # Here, where the line has the ids of the call's exchange.
            fields = {"mcp_server": self.server_id, "tool": name, "reason": result.reason}
            log.warning("MCP call failed", extra=fields)
        return result

    async def read_ui_resource(self, uri: str) -> UiResource | None:
        """A UI resource of the server; None if it can't be had, with a line."""
        read = await self._call(lambda session: session.read_resource(AnyUrl(uri)))
        resource = None if isinstance(read, FailedCall) else ui_resource_of(read)
        if resource is None:
            reason = read.reason if isinstance(read, FailedCall) else "unreadable"
            log.warning("MCP UI resource can't be had", extra={"mcp_server": self.server_id, "reason": reason})
        elif resource.needs:
            self._note_needs(resource.needs)
        return resource

    def _note_needs(self, needs: Mapping[str, Any]) -> None:
        """Tell what a UI resource declares, and what of it the page refuses."""
        declared = needs.get("csp", {})
        refused = [*lacking_hosts(declared, self._app_hosts), *needs.get("permissions", ())]
        refused += ["domain"] if "domain" in needs else []
        unreadable = needs.get("unreadable", 0)
        told = {"allowed": allowed_hosts(declared, self._app_hosts), "refused": refused, "unreadable": unreadable}
        log.log(
            logging.WARNING if refused or unreadable else logging.INFO,
            "MCP UI resource declares needs",
            extra={"mcp_server": self.server_id, **told},
        )

    async def _call(self, request: Callable[[LiveSession], Awaitable[R]]) -> R | FailedCall:
        """The answer to a request, or why there is none."""
        session, scope = self._live, anyio.CancelScope()
        # From here on the session doesn't rest.
        self._calls.add(scope)
        try:
            with scope:
                session = session or await self._woken(scope)
                if session is None:
                    return failed("unavailable", self._unavailable)
                scope.deadline = math.inf
                with served_timer(self._tool_timeout_s, scope.cancel):
                    return await self._called(session, request)
        finally:
            self._calls.discard(scope)
            self._used_at = asyncio.get_running_loop().time()
        if session is None or session is not self._live:
            return failed("unavailable", self._unavailable)
        # Does only this tool hang, or is the whole server frozen?
        session.doubt()
        return failed("timeout", f"The tool did not end within {self._tool_timeout_s:g} seconds.")

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

    async def _woken(self, scope: anyio.CancelScope) -> LiveSession | None:
        """The session that rested, opened anew; None if it is lost. If it can't be opened, `scope` is cancelled."""
        # The previous one may still close, which the owner bounds as it bounds the connecting.
        scope.deadline = anyio.current_time() + _CLOSE_S + self._connect_timeout_s
        while self._state in (_State.RESTING, _State.WAKING):
            self._wake.set()
            await self._awake.wait()
        return self._live

    async def _called(self, session: LiveSession, request: Callable[[LiveSession], Awaitable[R]]) -> R | FailedCall:
        try:
            return await request(session)
        except McpError as error:
            return failed("refused", self._said(error, session))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            # MCP's client may still read, but sends nothing more.
            session.end()
            return failed("unavailable", self._unavailable)
        except (RuntimeError, ValueError):
            # MCP's client raises these if a result violates the protocol.
            return failed("unreadable", self._says("gave a result that can't be read"))

    def _said(self, error: McpError, session: LiveSession) -> str:
        """The text for a call's error; an error that reports a lost session ends the session."""
        if error.error.code == CONNECTION_CLOSED or error.error.message == _SESSION_GONE:
            session.end()
            return self._unavailable
        return error.error.message or "The tool failed."

    async def _own(self, opened: asyncio.Future[None]) -> None:
        try:
            await self._keep_open(opened)
        finally:
            self._state = _State.LOST
            self._cut_calls()

    async def _keep_open(self, opened: asyncio.Future[None]) -> None:
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
            if self._state is not _State.RESTING:
                self._lose(error, is_again)
                is_again = True
            if self._state is _State.LOST:
                await asyncio.sleep(next(delays))
            if self._state is _State.RESTING or self._idle_left_s() == 0:
                await self._rest()

    async def _serve(self, opened: asyncio.Future[None]) -> Exception | None:
        """Connect, and stay until the session rests or is lost; return the cause of a loss if it is known."""
        try:
            async with self._connected() as (session, wakeup):
                if not opened.done():
                    opened.set_result(None)
                await self._until_it_ends(session, wakeup)
        except Exception as error:
            # Transports raise any error of their libraries, in groups: here all become one kind of failure.
            return error
        return None

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[LiveSession, asyncio.Event]]:
        wakeup = asyncio.Event()
        # Bounds the closing: a frozen server answers no goodbye, and until then its loss is not told.
        async with asyncio.timeout(None) as closing, AsyncExitStack() as stack:
            async with served_timeout(self._connect_timeout_s):
                streams = await stack.enter_async_context(self._open_transport(wakeup.set))
                session = await stack.enter_async_context(
                    LiveSession(streams, wakeup, self._inbound, shows_apps=self.shows_apps)
                )
                await session.initialize()
                if self._is_shared or not self.tools:
                    listed = await session.all_tools()
                    with logged_with(**self._opener):
                        self.tools, self.left_out = await asyncio.to_thread(usable_tools, self.server_id, listed)
            self._live, self._unavailable = session, self._says(_RESTARTING)
            self.connection += 1
            self._used_at = asyncio.get_running_loop().time()
            self._state = _State.LIVE
            self._awake.set()
            self._observe(self.server_id, True)
            try:
                yield session, wakeup
            finally:
                self._live = None
                closing.reschedule(asyncio.get_running_loop().time() + _CLOSE_S)

    async def _until_it_ends(self, session: LiveSession, wakeup: asyncio.Event) -> None:
        """Wait until the session is over or may rest. Raises if the server is gone, or no longer knows the session."""
        while not session.has_ended:
            left_s = self._idle_left_s()
            if left_s == 0:
                # Before the session closes: from here on calls wait for the next one.
                self._live = None
                self._fall_asleep()
                return
            with anyio.move_on_after(left_s):
                await wakeup.wait()
            if wakeup.is_set() and not session.has_ended:
                wakeup.clear()
                # An answer broke off, or did not come. Only a ping can show before the next call whether the server has
                # crashed or is frozen.
                async with served_timeout(self._connect_timeout_s):
                    await session.send_ping()

    def _idle_left_s(self) -> float | None:
        """The seconds until the session may rest, if no call comes; None if it never does."""
        if self._idle_s is None:
            return None
        if self._calls:
            return self._idle_s
        return max(0.0, self._used_at + self._idle_s - asyncio.get_running_loop().time())

    def _fall_asleep(self) -> None:
        self._state = _State.RESTING
        self._wake.clear()
        self._awake.clear()

    async def _rest(self) -> None:
        """Wait until a call needs the session."""
        if self._state is not _State.RESTING:
            self._fall_asleep()
        await self._wake.wait()
        self._state = _State.WAKING

    def _lose(self, error: Exception | None, is_again: bool) -> None:
        """Fail the running calls, and those that wait for the session."""
        if self._note_loss(error, is_again):
            # Only another token helps, and that is tried at the next call.
            self._fall_asleep()
        else:
            self._state = _State.LOST
        self._cut_calls()

    def _cut_calls(self) -> None:
        """Cancel the calls of a lost session: a failed transport leaves its requests without an answer."""
        for scope in self._calls:
            scope.cancel()

    def _cannot_open(self, error: Exception | None) -> AgentUnavailable:
        with logged_with(**self._opener):
            fields = {"mcp_server": self.server_id, "reason": error and summary_of(error)}
            log.warning("MCP server can't be reached", exc_info=_cause(error), extra=fields)
        unavailable = AgentUnavailable(self._says(self._lacks_token(error) or self._is_down(error, "can't be reached")))
        # For the author: clients are told no more than that.
        unavailable.__cause__ = _cause(error)
        return unavailable

    def _note_loss(self, error: Exception | None, is_again: bool) -> bool:
        """Say and log why the session is lost; return whether it only lacks a token."""
        if self._is_closing:
            return False
        lacks = self._lacks_token(error)
        self._unavailable = self._says(lacks or self._is_down(error, _RESTARTING))
        # If a server stays away, each agent logs only the first loss as a warning.
        reason = error and summary_of(error)
        fields = {"mcp_server": self.server_id, "refused": lacks is not None, "reason": reason}
        log.log(
            logging.DEBUG if is_again else logging.WARNING, "MCP session lost", exc_info=_cause(error), extra=fields
        )
        return lacks is not None

    def _lacks_token(self, error: Exception | None) -> str | None:
        """What to say if the server refused the user, or there is no token to ask it with; None if it is down."""
        for cause in _causes(error):
            if isinstance(cause, AuthUnavailable):
                return unasked(cause)
            if isinstance(cause, Unauthenticated | TokenExpired) or (self._auth.is_of_user and _is_refusal(cause)):
                return refusal(self._auth)
        return None

    def _is_down(self, error: Exception | None, otherwise: str) -> str:
        """Report it to `observe`; return what to say: that it refused the operator's key, or `otherwise`."""
        self._observe(self.server_id, False)
        return refusal(self._auth) if any(map(_is_refusal, _causes(error))) else otherwise

    def _says(self, what: str) -> str:
        return f"The MCP server '{self.server_id}' {what}."


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The exceptions in a group, and in its groups."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    elif error is not None:
        yield error


def _cause(error: BaseException | None) -> BaseException | None:
    """The first exception of a group, since the log would not show what a group contains."""
    return next(_causes(error), None)


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code in REFUSALS
