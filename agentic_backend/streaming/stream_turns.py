"""StreamTurns: bounds how long the streams of all models together occupy one turn of the event loop.

A stream whose provider is ahead has its next chunks at hand and never waits by itself. If each of many streams went on
for a moment, everything else, such as an exchange that starts, would wait for all of them at each of its steps. So they
share a slice of the loop's turn; when it is used up, each waits in line at its next chunk, and one goes on after some
turns that are free of them.
"""

import asyncio
import time
from collections import deque

# How long the streams may occupy a turn of the event loop, in seconds.
_SLICE_S = 0.01
# The turns of the event loop between two slices, while streams wait. An exchange that starts takes many short steps, of
# one turn each; if nothing else is to do, these turns take some microseconds.
_FREE_TURNS = 8


class StreamTurns:
    """One for all streams of an event loop, and only in its thread. A stream that is cancelled leaves the line."""

    def __init__(self) -> None:
        # The number of turns so far, of those in which streams went on or waited.
        self.number = 0
        # When this turn began, in seconds of the monotonic clock; None if no stream has come since the last one.
        self._began: float | None = None
        # The streams that wait, oldest first.
        self._waiting: deque[asyncio.Future[None]] = deque()
        # How many turns are still to pass before the one that waits longest goes on.
        self._free_turns = 0

    def used_up(self) -> bool:
        """Whether no time is left for further chunks in this turn; the first chunk begins it."""
        now = time.monotonic()
        if self._began is None:
            self._begin(now)
            return False
        return now - self._began > _SLICE_S

    async def wait(self) -> None:
        """Wait until the streams that came before this one have gone on."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        await place

    def _begin(self, now: float) -> None:
        self._began = now
        self.number += 1
        self._free_turns = _FREE_TURNS
        # Runs first in the next turn of the loop.
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """Let one stream go on in this turn: a second one would have no time left, and come back for one chunk."""
        if self._waiting and self._free_turns:
            self._free_turns -= 1
            self.number += 1
            asyncio.get_running_loop().call_soon(self._next)
            return
        self._began = None
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                self._begin(time.monotonic())
                return
