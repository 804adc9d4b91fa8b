"""Clock: one time for all instances on a database, which is the database's own.

Owned by its store. Machines' clocks may be hours apart, and may be set while a process runs, so neither is asked for
the time once the database has told its own: from then on the process's monotonic clock carries that on.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from agentic_backend.protocol.messages import utc_now

# How exactly a database tells its time.
_TOLD_TO_S = 0.001


class Clock:
    """`wall` is the machine's clock; it is the time until `hear` is called."""

    def __init__(self, wall: Callable[[], datetime] = utc_now, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._offset_s: float | None = None
        """What the database's time, in seconds since 1970, is ahead of the monotonic clock."""

    def now(self) -> datetime:
        if self._offset_s is None:
            return self._wall()
        return datetime.fromtimestamp(self._offset_s + self._monotonic(), UTC)

    def hear(self, told: datetime, asked_at: float, heard_at: float) -> float:
        """Take over the time that the database told between two times of the monotonic clock.

        Returns how many seconds the machine's clock is ahead of it. A slow answer leaves more than one offset
        possible: of these the one that differs least from the one before is taken, so that the time doesn't waver.
        """
        told_s = told.timestamp()
        least, most = told_s - heard_at, told_s + _TOLD_TO_S - asked_at
        before = (least + most) / 2 if self._offset_s is None else self._offset_s
        self._offset_s = min(max(before, least), most)
        return (self._wall() - self.now()).total_seconds()
