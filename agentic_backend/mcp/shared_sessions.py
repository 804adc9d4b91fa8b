"""SharedSessions: one session with each MCP server that is `shared`, for all agents of this process.

The composition root owns it. A session is opened by the first agent that needs it, and stays when agents close.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from agentic_backend.errors import AgentUnavailable

if TYPE_CHECKING:
    # Imported by the agents that use MCP: it takes a quarter of a second.
    from agentic_backend.mcp.server_session import ServerSession


class SharedSessions:
    def __init__(self) -> None:
        self._sessions: dict[str, ServerSession] = {}
        """The sessions that are open or being opened, by the server's id."""

    async def open(self, server_id: str, make: Callable[[], "ServerSession"]) -> "ServerSession":
        """The open session with the server; `make` makes the first one. Raises AgentUnavailable."""
        session = self._sessions.get(server_id)
        if session is None:
            session = self._sessions[server_id] = make()
        try:
            await session.open()
        except AgentUnavailable:
            # The next agent tries again.
            if self._sessions.get(server_id) is session:
                del self._sessions[server_id]
            raise
        return session

    async def aclose(self) -> None:
        """Close all sessions concurrently."""
        sessions, self._sessions = self._sessions, {}
        await asyncio.gather(*(session.aclose() for session in sessions.values()))
