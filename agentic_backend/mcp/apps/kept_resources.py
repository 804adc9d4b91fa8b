"""KeptResources: the UI resources of an agent's servers, and where the session keeps them.

Each is read once per connection, beside the call that shows it first: a result doesn't wait for a resource that comes
late, and what comes late serves the next call. Owned by the agent's MCPRuntime.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentic_backend.mcp.server_session import ServerSession

LATE_S = 1.0
"""How long a result waits for its resource, in seconds."""

Keep = Callable[[str], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class KeptResource:
    address: str
    """Where the page gets it."""
    prefers_border: bool | None
    needs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Reading:
    connection: int
    task: "asyncio.Task[KeptResource | None]"

    def serves(self, session: ServerSession) -> bool:
        """Whether the server is still the one that was asked, and the session could keep what it gave."""
        is_kept = not self.task.done() or (not self.task.cancelled() and self.task.exception() is None)
        return is_kept and self.connection == session.connection


class _NotKept(Exception):
    """The session could not keep it: the next call tries again."""


class KeptResources:
    def __init__(self) -> None:
        self._readings: dict[tuple[str, str], _Reading] = {}
        """By the server's id and the resource's address there."""

    def begin(self, session: ServerSession, uri: str, keep: Keep) -> "asyncio.Task[KeptResource | None]":
        """The reading of a resource, which may have ended."""
        found = self._readings.get((session.server_id, uri))
        if found is None or not found.serves(session):
            task = asyncio.create_task(_read(session, uri, keep))
            # Whoever waits for it looks at its error.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            found = self._readings[session.server_id, uri] = _Reading(session.connection, task)
        return found.task

    async def aclose(self) -> None:
        tasks = {reading.task for reading in self._readings.values() if not reading.task.done()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def in_time(reading: "asyncio.Task[KeptResource | None]") -> KeptResource | None:
    """What has been read, within LATE_S; None if it can't be had."""
    await asyncio.wait({reading}, timeout=LATE_S)
    if not reading.done() or reading.cancelled() or reading.exception() is not None:
        return None
    return reading.result()


async def _read(session: ServerSession, uri: str, keep: Keep) -> KeptResource | None:
    resource = await session.read_ui_resource(uri)
    if resource is None:
        return None
    if (address := await keep(resource.html)) is None:
        raise _NotKept
    return KeptResource(address, resource.prefers_border, resource.needs)
