"""HalfBegun: exchanges whose writer has not said yet whether they count, and whether it still may.

Owned by its store. When a writer began is a matter of its clock; how long this process has known of it is not.
"""

import time
from collections.abc import Callable

from cachetools import LRUCache

# Of one that is forgotten the time begins anew.
_KNOWN_AT_MOST = 10_000


class HalfBegun:
    """`writer_s` is how long a writer takes to begin an exchange at most; after that it has given up, or is dead."""

    def __init__(self, writer_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.writer_s = writer_s
        self._clock = clock
        self._met_at: LRUCache[str, float] = LRUCache(_KNOWN_AT_MOST)

    def is_given_up(self, exchange_id: str) -> bool:
        """Whether its writer must have given up; it is met now, and may have been before."""
        return self._clock() - self._met_at.setdefault(exchange_id, self._clock()) >= self.writer_s
