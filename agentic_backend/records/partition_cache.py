"""PartitionCache: the partitions that were searched last, by the beginning of their places, within bounds."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence

from agentic_backend.records.partition import Partition


class PartitionCache:
    def __init__(self, most: int = 1_000, most_bytes: int = 128 * 1024 * 1024, idle_s: float = 300) -> None:
        """Keeps at most so many, and of so many bytes together, about; one that is not used for so long is dropped."""
        self._most = most
        self._most_bytes = most_bytes
        self._idle_s = idle_s
        self._kept: OrderedDict[str, Partition] = OrderedDict()
        """The one that was used last comes last."""
        self._used_at: dict[str, float] = {}
        self._sizes: dict[str, int] = {}
        """In bytes, when it was used last."""
        self.bytes = 0
        """The sum of these."""
        self._timer: asyncio.TimerHandle | None = None
        """Drops what is not used; there is one while anything is kept."""

    def __len__(self) -> int:
        return len(self._kept)

    def partition(self, beginning: str, *, of_session: bool) -> Partition:
        """The one that is kept, or a new one, which is then."""
        if beginning not in self._kept:
            self._kept[beginning] = Partition(beginning, of_session=of_session)
        self._used(beginning)
        return self._kept[beginning]

    def settle(self, beginnings: Sequence[str]) -> None:
        """Look how large these have become, and drop those used longest ago until the rest is within the bounds."""
        for beginning in beginnings:
            if beginning in self._kept:
                self._used(beginning)
        while self._kept and (len(self._kept) > self._most or self.bytes > self._most_bytes):
            self._drop(next(iter(self._kept)))

    def _used(self, beginning: str) -> None:
        self._kept.move_to_end(beginning)
        self._used_at[beginning] = time.monotonic()
        size = self._kept[beginning].bytes
        self.bytes += size - self._sizes.get(beginning, 0)
        self._sizes[beginning] = size
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._drop_idle)

    def _drop(self, beginning: str) -> None:
        del self._kept[beginning], self._used_at[beginning]
        self.bytes -= self._sizes.pop(beginning)

    def _drop_idle(self) -> None:
        self._timer, now = None, time.monotonic()
        while self._kept:
            first = next(iter(self._kept))
            idle_s = now - self._used_at[first]
            if idle_s < self._idle_s:
                self._timer = asyncio.get_running_loop().call_later(self._idle_s - idle_s, self._drop_idle)
                return
            self._drop(first)
