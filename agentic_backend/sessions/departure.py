"""Departure: how an instance that is told to stop takes leave of its clients, and how long it waits for anything.

Owned by the relay. Whoever keeps a connection open is told to go: at once where nothing is followed there that is at
work here, else when that has ended. Waiting is measured in the time that the event loop was given, and ends when
nothing moves any more: a process that is starved says what it has to say, only later.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Clients that are sent away come back elsewhere, at most so many in a second and the last after so long.
_LEAVING_PER_S, _LONGEST_SPREAD_S = 500, 5.0
_TICK_S = 0.02
LONGEST_S = 20.0
"""How long the process goes on beyond its grace period, as long as something of what has to be said is being said."""


class Leaving:
    """One open connection. Once `is_due` it goes as soon as it is idle; `wake` is called then."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.is_due = False
        self._wake = wake
        self._timer: asyncio.TimerHandle | None = None

    def after(self, delay_s: float) -> None:
        """Be due after `delay_s` seconds, or when it was due already."""
        self.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._become_due)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _become_due(self) -> None:
        self.is_due = True
        self._wake()


class Departure:
    def __init__(self) -> None:
        self.has_begun = False
        self.cut_short = asyncio.Event()
        """Set when what runs has no more time, whatever is left of the grace period."""
        self.steps = 0
        """Grows with everything that is said and done on the way out; a thread may look at it."""
        self._open: set[Leaving] = set()
        self._until: float | None = None
        """When waiting ends, whatever moves; set by the first that waits."""

    @property
    def open_count(self) -> int:
        """How many connections have not gone."""
        return len(self._open)

    @contextmanager
    def tells(self, wake: Callable[[], None]) -> Iterator[Leaving]:
        """A connection that is open while the block lasts."""
        leaving = Leaving(wake)
        self._open.add(leaving)
        if self.has_begun:
            leaving.after(0)
        try:
            yield leaving
        finally:
            leaving.cancel()
            self._open.discard(leaving)

    def begin(self, at_most_s: float) -> None:
        """Tell every connection to go, not all at the same moment, but within `at_most_s`."""
        self.has_begun = True
        spread_s = min(len(self._open) / _LEAVING_PER_S, _LONGEST_SPREAD_S, at_most_s)
        for leaving in self._open:
            leaving.after(random.uniform(0, spread_s))

    def hurry(self) -> None:
        """Whoever has not gone is due now."""
        for leaving in self._open:
            leaving.after(0)

    async def wait(self, left: Callable[[], int], patience_s: float) -> None:
        """Until nothing is left; no longer than `patience_s` without anything having gone."""
        clock = asyncio.get_running_loop().time
        if self._until is None:
            self._until = clock() + LONGEST_S
        count, waited_s = left(), 0.0
        while count and waited_s < patience_s and clock() < self._until:
            await asyncio.sleep(_TICK_S)
            # However long that took: in one tick everything that could go on has had its turn.
            waited_s += _TICK_S
            before, count = count, left()
            if count < before:
                self.steps += 1
                waited_s = 0.0
