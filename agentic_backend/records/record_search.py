"""RecordSearch: finds records by their words or their vectors, the same on every store.

What ranks them is in memory; what is found is what the store has. So a record that was removed or changed elsewhere is
not found as it was, however old the memory is.
"""

from asyncio import gather
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from heapq import nsmallest
from typing import Any, NamedTuple

from agentic_backend.loop.event_loop import in_thread_if_long
from agentic_backend.records.partition import Partition
from agentic_backend.records.partition_cache import PartitionCache
from agentic_backend.records.search_index import IndexT, SearchQuery
from agentic_backend.records.searched_place import SearchedPlace
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.application_records import ApplicationRecord

# Whether what is gone is looked for: if something that is found is, much else may be. Where others remove records
# faster than they are looked for, fewer are found.
_LOOKS = (False, True, True)
# So many partitions look at the store at once.
_AT_ONCE = 8


class _Hit(NamedTuple):
    """A record as it is in memory. Hits sort as they are found."""

    below: float
    """Its score, with the other sign."""
    key: str
    place: str


class RecordSearch:
    def __init__(self, store: Store, cache: PartitionCache | None = None) -> None:
        self._store = store
        self._cache = PartitionCache() if cache is None else cache

    async def find(
        self,
        beginnings: Collection[str],
        id_of: Callable[[str], str],
        query: SearchQuery[IndexT],
        limit: int,
        *,
        of_session: bool,
        since: float | None = None,
    ) -> list[tuple[ApplicationRecord, float]]:
        """The `limit` records that the query ranks first, with their scores, the highest first, then by key.

        They are those of an owner's whose places begin so; `id_of` gives their ids by key. What was written after
        `since`, by the monotonic clock, may be missed. Raises StoreUnavailable.
        """
        # In this order everybody waits for them.
        names = sorted(set(beginnings))
        found: list[tuple[ApplicationRecord, float]] = []
        for whole in _LOOKS:
            hits: list[_Hit] = []
            # Of those that need no others a few are held at once, however much all of them take.
            step = max(1, len(names)) if query.together else _AT_ONCE
            for first in range(0, len(names), step):
                some = names[first : first + step]
                hits += await self._hits(some, query, limit, of_session=of_session, whole=whole, since=since)
            hits = sorted(hits)[:limit]
            ids = [id_of(hit.key) for hit in hits]
            rows = await self._store.get_application_records(ids, of_session=of_session) if ids else []
            there = {row.searched: row for row in rows if _is_written_whole(row)}
            found = [(there[hit.place], -hit.below) for hit in hits if hit.place in there]
            if len(found) == len(hits):
                break
        return found

    async def _hits(
        self,
        names: Sequence[str],
        query: SearchQuery[IndexT],
        limit: int,
        *,
        of_session: bool,
        whole: bool,
        since: float | None,
    ) -> list[_Hit]:
        partitions = [self._cache.partition(query.index, name, of_session=of_session) for name in names]
        try:
            async with _held(partitions):
                await self._look(partitions, whole=whole, since=since)
                work = query.work([each.index for each in partitions])
                return await in_thread_if_long(work, _best, partitions, query, limit)
        finally:
            self._cache.settle(query.index, names)

    async def _look(self, partitions: Sequence[Partition[Any]], *, whole: bool, since: float | None) -> None:
        for first in range(0, len(partitions), _AT_ONCE):
            some = partitions[first : first + _AT_ONCE]
            # All have ended before one's error is raised: then nobody holds them any more.
            looks = (each.look(self._store, whole=whole, since=since) for each in some)
            ends = await gather(*looks, return_exceptions=True)
            for error in ends:
                if error is not None:
                    raise error


@asynccontextmanager
async def _held(partitions: Sequence[Partition[Any]]) -> AsyncIterator[None]:
    async with AsyncExitStack() as held:
        for partition in partitions:
            # So that two searches fill a partition once, and none changes what another looks through.
            await held.enter_async_context(partition.lock)
        yield


def _best(partitions: Sequence[Partition[IndexT]], query: SearchQuery[IndexT], limit: int) -> list[_Hit]:
    found = query.best([each.index for each in partitions], limit)
    return nsmallest(limit, (_Hit(-score, *partitions[which].record(slot)) for score, which, slot in found))


def _is_written_whole(row: ApplicationRecord) -> bool:
    """Whether what is searched of the record is that of its value: a server of an older release writes this alone."""
    return row.searched is not None and SearchedPlace.read(row.searched.split(" ")[-1]).revision == row.revision
