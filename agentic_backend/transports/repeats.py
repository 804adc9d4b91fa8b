"""Repeats: counts what clients repeat, so that it is logged once a minute with the number of occurrences."""

import math
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

_EVERY_S = 60.0
_KEYS_AT_MOST = 1_000


@dataclass(slots=True)
class _Told:
    at: float
    """When the key was reported for the last time."""
    untold: int = 0


class Repeats:
    """Counts occurrences by key, and reports each key once a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[Hashable, _Told] = {}

    def count(self, key: Hashable, times: int = 1) -> int:
        """Count an occurrence; return the number since the last report, or 0 if it is not to be reported now."""
        now = self._clock()
        if key not in self._told and len(self._told) >= _KEYS_AT_MOST:
            self._told.clear()
        told = self._told.setdefault(key, _Told(-math.inf))
        told.untold += times
        if now - told.at < _EVERY_S:
            return 0
        told.at, untold, told.untold = now, told.untold, 0
        return untold

    def untold(self) -> Iterator[tuple[Hashable, int]]:
        """The keys with unreported occurrences, and their number: for a final report."""
        return ((key, told.untold) for key, told in self._told.items() if told.untold)
