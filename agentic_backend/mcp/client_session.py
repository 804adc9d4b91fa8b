"""CancellingSession: MCP's ClientSession, which also says when its connection has ended and what is no longer awaited.

It offers servers neither sampling nor elicitation nor roots, so none may ask for them.
"""

import asyncio
import contextlib
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import ClientSession, types
from mcp.shared.message import SessionMessage
from mcp.types import (
    CallToolRequest,
    CancelledNotification,
    CancelledNotificationParams,
    ClientNotification,
    Tool,
)

from agentic_backend.mcp.inbound import MOST_TOOLS, Inbound
from agentic_backend.mcp.progress import Report

ReadStream = MemoryObjectReceiveStream[SessionMessage | Exception]
WriteStream = MemoryObjectSendStream[SessionMessage]

_NOTIFY_S = 1
_MOST_PAGES = 100


class CancellingSession(ClientSession):
    """`has_ended` once nothing more can come from the server; `stir` is set then."""

    def __init__(self, read: ReadStream, write: WriteStream, stir: asyncio.Event, inbound: Inbound) -> None:
        super().__init__(read, write)
        self.has_ended = False
        self._inbound = inbound
        self._stir = stir

    def end(self) -> None:
        self.has_ended = True
        self._stir.set()

    async def call(
        self, tool: str, arguments: dict[str, Any], report: Report, meta: dict[str, Any] | None
    ) -> types.CallToolResult:
        """Call a tool; all that it has reported is told to `report` before its result is there."""
        # What MCP's client makes of the request: the number that it has, which its progress names.
        with self._inbound.progress.of(self._request_id, report):
            return await self.call_tool(tool, arguments, progress_callback=_told_elsewhere, meta=meta)

    async def send_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """As MCP's, which forgets a request that is cancelled: the server is told to stop its tool."""
        request_id = self._request_id
        try:
            with self._inbound.awaiting(request_id):
                return await super().send_request(request, *args, **kwargs)
        except asyncio.CancelledError:
            if isinstance(request.root, CallToolRequest) and not self.has_ended:
                await self._tell_cancelled(request_id)
            raise

    async def all_tools(self) -> list[Tool]:
        """The server's tools, page by page, as many as an agent could ever be given."""
        page = await self.list_tools()
        tools, pages = page.tools, 1
        while page.nextCursor and len(tools) < MOST_TOOLS and pages < _MOST_PAGES:
            page = await self.list_tools(cursor=page.nextCursor)
            tools, pages = tools + page.tools, pages + 1
        return tools[:MOST_TOOLS]

    async def _tell_cancelled(self, request_id: int) -> None:
        params = CancelledNotificationParams(requestId=request_id, reason="The result is no longer awaited.")
        notification = ClientNotification(CancelledNotification(params=params))
        # Shielded, because the scope around is cancelled already; and only so long, for the server may read no more.
        with (
            anyio.move_on_after(_NOTIFY_S, shield=True),
            contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError),
        ):
            await self.send_notification(notification)

    async def _receive_loop(self) -> None:
        try:
            await super()._receive_loop()
        finally:
            self.end()


async def _told_elsewhere(progress: float, total: float | None, message: str | None) -> None:
    """Has MCP's client ask for progress, which does not come by it (see Inbound)."""
