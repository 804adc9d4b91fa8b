"""Drain: closes the clients' connections when the instance stops, and limits how long the shutdown waits.

Owned by the relay. Each open connection gets a notice to close: an idle one closes at once, others when the exchanges
that they follow here have ended. Waiting is measured in turns of the event loop and ends when nothing makes progress:
a process that is short of CPU still sends its last events, only later.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Closed clients reconnect elsewhere, so closes are spread: at most so many per second, the last after so many seconds.
_SENT_AWAY_PER_S, _LONGEST_SPREAD_S = 500, 5.0
_TICK_S = 0.02
LONGEST_S = 20.0
"""The longest wait in seconds after the grace period, even if events and closes are still being sent."""


class DrainNotice:
    """The notice to one open connection. Once it `is_due`, the connection closes as soon as it is idle."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.is_due = False
        self._wake = wake
        """Called when the notice becomes due."""
        self._timer: asyncio.TimerHandle | None = None
        """Runs until the notice is due; None until the drain begins."""

    def after(self, delay_s: float) -> None:
        """Become due after `delay_s` seconds; a notice that is due stays due."""
        self.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._become_due)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _become_due(self) -> None:
        self.is_due = True
        self._wake()


class Drain:
    def __init__(self) -> None:
        self.has_begun = False
        self.cut_short = asyncio.Event()
        """Set to skip the rest of the grace period."""
        self.turns = 0
        """Counts the turns of the event loop within `wait`; other threads may read it."""
        self._open: set[DrainNotice] = set()
        """The notices of the open connections."""
        self._until: float | None = None
        """When all waiting ends, in the event loop's time; set by the first `wait`."""

    @property
    def open_count(self) -> int:
        """The number of open connections."""
        return len(self._open)

    @contextmanager
    def notice(self, wake: Callable[[], None]) -> Iterator[DrainNotice]:
        """Register a connection that is open while the block lasts; `wake` is called when its notice is due."""
        notice = DrainNotice(wake)
        self._open.add(notice)
        if self.has_begun:
            notice.after(0)
        try:
            yield notice
        finally:
            notice.cancel()
            self._open.discard(notice)

    def begin(self, at_most_s: float) -> None:
        """Make all notices due, spread over at most `at_most_s` seconds. Further calls do nothing."""
        if self.has_begun:
            return
        self.has_begun = True
        spread_s = min(len(self._open) / _SENT_AWAY_PER_S, _LONGEST_SPREAD_S, at_most_s)
        for notice in self._open:
            notice.after(random.uniform(0, spread_s))

    def hurry(self) -> None:
        """Make the notices of all open connections due now."""
        for notice in self._open:
            notice.after(0)

    async def wait(self, left: Callable[[], int], patience_s: float, done: Callable[[], int] = lambda: 0) -> None:
        """Wait until `left` returns 0, or neither that nor `done` changes for `patience_s` seconds.

        `done` counts what is done for those that are left: many at once take turns, so the first may be complete only
        when nearly all are. LONGEST_S bounds all waits.
        """
        clock = asyncio.get_running_loop().time
        if self._until is None:
            self._until = clock() + LONGEST_S
        progress, waited_s = (left(), done()), 0.0
        while progress[0] and waited_s < patience_s and clock() < self._until:
            await asyncio.sleep(_TICK_S)
            self.turns += 1
            # Counted as one tick, however long it took: every ready task has had a turn.
            waited_s += _TICK_S
            before, progress = progress, (left(), done())
            if progress != before:
                waited_s = 0.0
