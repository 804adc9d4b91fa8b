"""StreamTurns: bounds how long the streams of all models together occupy one turn of the event loop.

A stream whose provider is ahead has its next chunks at hand and never waits by itself. If each of many streams went on
for a moment, everything else, such as an exchange that starts, would wait for all of them at each of its steps. So they
share a slice of the loop's turn; when it is used up, each waits in line at its next chunk, and one goes on in each
turn. Only what streams themselves use counts, and by the processor's clock: a slice that others could use up, or a
machine that lends the process little time, would starve the streams.
"""

import asyncio
import time
from collections import deque

# How long the streams may occupy a turn of the event loop, in seconds of processor time.
_SLICE_S = 0.02


class StreamTurns:
    """One for all streams of an event loop, and only in its thread. A stream that is cancelled leaves the line."""

    def __init__(self) -> None:
        self.number = 0
        """The number of turns so far, of those in which streams went on or waited."""
        self._used_s = 0.0
        """Processor time that streams have used in this turn, in seconds."""
        # The stream that goes on in this turn, and the processor's clock at its last chunk.
        self._going_on: asyncio.Task[object] | None = None
        self._seen_at = 0.0
        self._is_due = False
        """Whether `_next` is due in the next turn of the loop."""
        self._waiting: deque[tuple[float, asyncio.Future[None]]] = deque()
        """The streams that wait, oldest first, each with the time since when, by the monotonic clock."""

    @property
    def longest_wait_s(self) -> float:
        """For how long the stream has waited that is first in line; 0 if none waits. From any thread."""
        now = time.monotonic()
        return now - next((since for since, place in tuple(self._waiting) if not place.done()), now)

    def used_up(self) -> bool:
        """Whether the stream of this task, which has a chunk, has to wait before its next one."""
        task, now = asyncio.current_task(), time.thread_time()
        if task is self._going_on:
            self._used_s += now - self._seen_at
        self._go_on(task, now)
        return self._used_s > _SLICE_S

    async def wait(self) -> None:
        """Wait until the streams that came before this one have gone on."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append((time.monotonic(), place))
        await place
        self._go_on(asyncio.current_task(), time.thread_time())

    def _go_on(self, task: asyncio.Task[object] | None, now: float) -> None:
        self._going_on, self._seen_at = task, now
        if not self._is_due:
            self._is_due = True
            # Runs first in the next turn of the loop.
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """Let one stream go on: a second one would have no time left, and come back for one chunk."""
        self.number += 1
        self._used_s, self._going_on, self._is_due = 0.0, None, False
        while self._waiting:
            place = self._waiting.popleft()[1]
            if not place.done():
                place.set_result(None)
                # It may not come: what waits behind it goes on all the same.
                self._go_on(None, 0.0)
                return
