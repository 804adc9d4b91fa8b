"""PartitionCache: the partitions that were searched last, within bounds."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from agentic_backend.records.partition import Partition
from agentic_backend.records.search_index import IndexT

_FILLED_AT_ONCE = 2


class PartitionCache:
    def __init__(self, most: int = 1_000, most_bytes: int = 256 * 1024 * 1024, idle_s: float = 300) -> None:
        """Keeps at most so many, and of so many bytes together, about; one that is not used for so long is dropped."""
        self._most = most
        # What is being filled is beyond the bounds until it has been searched; others wait for their turn.
        self._filling = asyncio.Semaphore(_FILLED_AT_ONCE)
        self._most_bytes = most_bytes
        self._idle_s = idle_s
        self._kept: OrderedDict[str, Partition[Any]] = OrderedDict()
        """By their index and the beginning of their places; the one that was used last comes last."""
        self._used_at: dict[str, float] = {}
        self._sizes: dict[str, int] = {}
        """In bytes, when it was used last."""
        self.bytes = 0
        """The sum of these."""
        self._timer: asyncio.TimerHandle | None = None
        """Drops what is not used; there is one while anything is kept."""

    def __len__(self) -> int:
        return len(self._kept)

    def partition(self, index: type[IndexT], beginning: str, *, of_session: bool) -> Partition[IndexT]:
        """The one that is kept, or a new one, which is then."""
        name = _name(index, beginning)
        if name not in self._kept:
            self._kept[name] = Partition(index, beginning, of_session=of_session, filling=self._filling)
        self._used(name)
        return self._kept[name]

    def settle(self, index: type[IndexT], beginnings: Sequence[str]) -> None:
        """Look how large these have become, and drop those used longest ago until the rest is within the bounds."""
        for name in (_name(index, beginning) for beginning in beginnings):
            if name in self._kept:
                self._used(name)
        while self._kept and (len(self._kept) > self._most or self.bytes > self._most_bytes):
            self._drop(next(iter(self._kept)))

    def _used(self, name: str) -> None:
        self._kept.move_to_end(name)
        self._used_at[name] = time.monotonic()
        size = self._kept[name].bytes
        self.bytes += size - self._sizes.get(name, 0)
        self._sizes[name] = size
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._drop_idle)

    def _drop(self, name: str) -> None:
        del self._kept[name], self._used_at[name]
        self.bytes -= self._sizes.pop(name)

    def _drop_idle(self) -> None:
        self._timer, now = None, time.monotonic()
        while self._kept:
            first = next(iter(self._kept))
            idle_s = now - self._used_at[first]
            if idle_s < self._idle_s:
                self._timer = asyncio.get_running_loop().call_later(self._idle_s - idle_s, self._drop_idle)
                return
            self._drop(first)


def _name(index: type[IndexT], beginning: str) -> str:
    return f"{index.column} {beginning}"
