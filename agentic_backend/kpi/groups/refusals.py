"""What is refused at the doors, and whether one person causes most of it.

Labels have no users, so a gauge says how many refusals the most refused person has, and a line of the log who it is.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Literal

from agentic_backend.errors import whose_fault
from agentic_backend.kpi.registry import MetricsRegistry

log = logging.getLogger(__name__)

Door = Literal["rest", "socket", "frame"]
"""Where somebody was refused: a request of any REST door, a socket until it is let in, a frame of an open socket."""

_WINDOW_S = 60.0
_OFTEN = 60
"""From how many refusals in a minute on the log says whose they are: clients wait longer and longer in between."""
_PERSONS = 1_000


class RefusalMetrics:
    def __init__(self, metrics: MetricsRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._refused = metrics.counter(
            "chat_door_refusals", "Requests, sockets and frames that were refused.", "door", "reason"
        )
        for reason in ("origin", "host"):
            # From 0: to Prometheus a series that begins with its first event is no increase.
            for door in ("rest", "socket"):
                self._refused.labels(door, reason)
        self._persons = RecentCounts(clock)
        self._clock = clock
        self._told_at = -math.inf
        most = metrics.gauge(
            "chat_refusals_of_one_person", "The most refusals that one person had in the last minute.", together="max"
        )
        most.set_function(lambda: self._persons.most()[1])

    def refused(self, door: Door, reason: str, user_id: str | None = None) -> None:
        """`reason` is an error's code, or `origin`, `host` or `subprotocol`; `user_id` is who was refused, if known.

        Only what is the client's to mend counts for a person.
        """
        self._refused.labels(door, reason).inc()
        if user_id is None or whose_fault(reason) != "client":
            return
        times, now = self._persons.count(user_id), self._clock()
        if times >= _OFTEN and now - self._told_at >= _WINDOW_S:
            self._told_at = now
            most_refused, most = self._persons.most()
            fields = {"user_id": most_refused, "count": round(most), "code": reason}
            log.warning("one person is refused often", extra=fields)


class RecentCounts:
    """Counts by person over the last minute, as a sliding window: of the minute before, the part that it still covers.

    In each minute _PERSONS are counted apart. Others wait for the next one: who comes often is among its first. Ids are
    bounded where tokens are read. Read in other threads too.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began_at = clock()
        self._now: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def count(self, user_id: str) -> float:
        """Count an occurrence; return how many the person has."""
        with self._lock:
            weight = self._turn()
            if user_id in self._now or len(self._now) < _PERSONS:
                self._now[user_id] = self._now.get(user_id, 0) + 1
            return self._of(user_id, weight)

    def most(self) -> tuple[str, float]:
        """Who has the most, and how many; nobody has 0."""
        with self._lock:
            weight = self._turn()
            counts = {user_id: self._of(user_id, weight) for user_id in self._now.keys() | self._before.keys()}
        return max(counts.items(), key=lambda each: each[1], default=("", 0.0))

    def _of(self, user_id: str, weight: float) -> float:
        return self._now.get(user_id, 0) + weight * self._before.get(user_id, 0)

    def _turn(self) -> float:
        """Begin another minute if this one is over; return how much of the one before counts."""
        windows, over_s = divmod(self._clock() - self._began_at, _WINDOW_S)
        if windows:
            self._before, self._now = (self._now if windows == 1 else {}), {}
            self._began_at += windows * _WINDOW_S
        return 1 - over_s / _WINDOW_S
