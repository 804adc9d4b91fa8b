"""EventReader: what a feed of events does for its reader, who may fall behind.

What is unread is bounded. Beyond that it is dropped as a whole, and the reader who comes back is shown it anew.
"""

from collections.abc import Callable
from typing import Self

from agentic_backend.client.errors import ChatError
from agentic_backend.client.places import Inbox
from agentic_backend.protocol.events import Event


class EventReader:
    """An asynchronous iterator of events. `follow` asks the server for them anew, `forget` keeps more from coming."""

    def __init__(self, *, follow: Callable[[], None], forget: Callable[[], None]) -> None:
        self._follow = follow
        self._forget = forget
        self._inbox = Inbox()
        self._is_behind = False
        """Whether unread events were dropped, and the reader has not come back since."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._is_behind:
            self._is_behind = False
            self._follow()
        event = await self._inbox.get()
        if event is None:
            raise StopAsyncIteration
        return event

    def close(self) -> None:
        """Read no more of it."""
        self._forget()
        self._inbox.end()

    @property
    def is_due(self) -> bool:
        """Whether a new connection has to follow it."""
        return not self._is_behind

    def fail(self, error: ChatError) -> None:
        self._forget()
        self._inbox.end(error)

    def _keep(self, event: Event, size: int) -> bool:
        """Keep an event for the reader; False if it is behind now, with all that was unread gone."""
        if not self._inbox.put(event, size):
            self._inbox.clear()
            self._is_behind = True
        return not self._is_behind
