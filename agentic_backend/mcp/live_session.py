"""LiveSession: one open session with an MCP server, as MCP's ClientSession, with what that one lacks."""

import asyncio
import contextlib
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import ClientSession
from mcp.shared.message import SessionMessage
from mcp.shared.session import ProgressFnT
from mcp.types import (
    CallToolRequest,
    CallToolResult,
    CancelledNotification,
    CancelledNotificationParams,
    ClientNotification,
    InitializeRequest,
    Tool,
)

from agentic_backend.mcp.apps.ui_resources import CAPABILITY, EXTENSION
from agentic_backend.mcp.inbound import MOST_TOOLS, Inbound

ReadStream = MemoryObjectReceiveStream[SessionMessage | Exception]
WriteStream = MemoryObjectSendStream[SessionMessage]
Streams = tuple[ReadStream, WriteStream]

_NOTIFY_S = 1
"""Timeout of the notification about a cancelled call, in seconds: the server may no longer read."""
_MOST_PAGES = 100
"""Pages of a server's list of tools."""


class LiveSession(ClientSession):
    """MCP's ClientSession, which also reports the end of its connection, and cancelled calls to the server."""

    def __init__(self, streams: Streams, wakeup: asyncio.Event, inbound: Inbound, *, shows_apps: bool = False) -> None:
        super().__init__(*streams)
        self._shows_apps = shows_apps
        """Whether the server is told that its UI resources are shown."""
        self.has_ended = False
        """Whether the session is over: the server can't send anything more, or no longer knows it."""
        self._wakeup = wakeup
        """Wakes the owner once the session has ended, or whether it has is in doubt."""
        self._inbound = inbound
        """Lets in only answers that are registered with it."""

    def end(self) -> None:
        self.has_ended = True
        self._wakeup.set()

    def doubt(self) -> None:
        """Let the owner see whether the server still answers."""
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
        if self._shows_apps and isinstance(request.root, InitializeRequest):
            # MCP's client has no place for capabilities that are extensions.
            params = request.root.params
            params.capabilities = params.capabilities.model_copy(update={"extensions": {EXTENSION: dict(CAPABILITY)}})
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
