"""The client's place in an exchange, and the events that wait there for their reader."""

import asyncio
from collections import deque

from agentic_backend.client.errors import ChatError
from agentic_backend.protocol.events import Event, ExchangeEvent, Final, Reset, Started

_WAITING_AT_MOST = 10_000
_WAITING_BYTES_AT_MOST = 8 * 1024 * 1024


class Place:
    """The last `seq` that counted. None: nothing counts until the exchange is shown from its beginning, or ends."""

    def __init__(self) -> None:
        self.seq: int | None = None

    def takes(self, event: ExchangeEvent) -> bool:
        """Whether the event counts; it does once."""
        if not isinstance(event, Started | Reset):
            is_known = self.seq is not None or isinstance(event, Final)
            if not is_known or event.seq <= (self.seq or 0):
                return False
        self.seq = event.seq
        return True


class Inbox:
    """The unread events of one reader, bounded in number and in bytes as they came."""

    def __init__(self) -> None:
        self._events: deque[tuple[Event, int]] = deque()
        self._bytes = 0
        self._ended = False
        self._error: ChatError | None = None
        self._changed = asyncio.Event()

    def put(self, event: Event, size: int) -> bool:
        """Keep an event of `size` bytes; False if there is no room for it. A single event always has room."""
        is_full = len(self._events) >= _WAITING_AT_MOST or self._bytes + size > _WAITING_BYTES_AT_MOST
        if is_full and self._events:
            return False
        self._events.append((event, size))
        self._bytes += size
        self._changed.set()
        return True

    def clear(self) -> None:
        self._events.clear()
        self._bytes = 0

    def end(self, error: ChatError | None = None) -> None:
        """Nothing more comes: the reader gets what waits, and then `error`, if there is one."""
        if not self._ended:
            self._ended, self._error = True, error
            self._changed.set()

    async def get(self) -> Event | None:
        """The next event; None at the end. Raises the error that has ended it."""
        while not self._events:
            if self._error is not None:
                raise self._error
            if self._ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        event, size = self._events.popleft()
        self._bytes -= size
        return event
