"""RecordSearch: finds records by their words, the same on every store.

What ranks them is in memory; what is found is what the store has. So a record that was removed or changed elsewhere is
not found as it was, however old the memory is.
"""

from asyncio import gather
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from agentic_backend.loop.event_loop import in_thread_if_long
from agentic_backend.records.partition import Partition
from agentic_backend.records.partition_cache import PartitionCache
from agentic_backend.records.searched_place import SearchedPlace
from agentic_backend.records.word_index import Sought, best, work_of
from agentic_backend.records.words import sought_words
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.application_records import ApplicationRecord

# Whether what is gone is looked for: if something that is found is, much else may be. Where others remove records
# faster than they are looked for, fewer are found.
_LOOKS = (False, True, True)
# So many partitions look at the store at once.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class _Hit:
    """A record as it is in memory."""

    score: float
    key: str
    place: str


class RecordSearch:
    def __init__(self, store: Store, cache: PartitionCache | None = None) -> None:
        self._store = store
        self._cache = PartitionCache() if cache is None else cache

    async def find(
        self, beginnings: Collection[str], id_of: Callable[[str], str], query: str, limit: int, *, of_session: bool
    ) -> list[tuple[ApplicationRecord, float]]:
        """The `limit` records that the query's words rank first, with their scores, the highest first, then by key.

        They are those of an owner's whose places begin so; `id_of` gives their ids by key. Raises StoreUnavailable.
        """
        sought = sought_words(query)
        if not sought:
            return []
        # In this order everybody waits for them.
        names = sorted(set(beginnings))
        partitions = [self._cache.partition(name, of_session=of_session) for name in names]
        try:
            return await self._find(partitions, id_of, sought, limit, of_session=of_session)
        finally:
            self._cache.settle(names)

    async def _find(
        self,
        partitions: Sequence[Partition],
        id_of: Callable[[str], str],
        sought: Sought,
        limit: int,
        *,
        of_session: bool,
    ) -> list[tuple[ApplicationRecord, float]]:
        found: list[tuple[ApplicationRecord, float]] = []
        for whole in _LOOKS:
            async with _held(partitions):
                await self._look(partitions, whole=whole)
                hits = await _best(partitions, sought, limit)
            ids = [id_of(hit.key) for hit in hits]
            rows = await self._store.get_application_records(ids, of_session=of_session) if ids else []
            there = {row.searched: row for row in rows if _is_written_whole(row)}
            found = [(there[hit.place], hit.score) for hit in hits if hit.place in there]
            if len(found) == len(hits):
                break
        return found

    async def _look(self, partitions: Sequence[Partition], *, whole: bool) -> None:
        for first in range(0, len(partitions), _AT_ONCE):
            some = partitions[first : first + _AT_ONCE]
            # All have ended before one's error is raised: then nobody holds them any more.
            ends = await gather(*(each.look(self._store, whole=whole) for each in some), return_exceptions=True)
            for error in ends:
                if error is not None:
                    raise error


@asynccontextmanager
async def _held(partitions: Sequence[Partition]) -> AsyncIterator[None]:
    async with AsyncExitStack() as held:
        for partition in partitions:
            # So that two searches fill a partition once, and none changes what another looks through.
            await held.enter_async_context(partition.lock)
        yield


async def _best(partitions: Sequence[Partition], sought: Sought, limit: int) -> list[_Hit]:
    indexes = [partition.words for partition in partitions]
    found = await in_thread_if_long(work_of(indexes, sought), best, indexes, sought, limit)
    ranked = sorted((-score, *partitions[which].record(slot)) for score, which, slot in found)
    return [_Hit(-score, key, place) for score, key, place in ranked[:limit]]


def _is_written_whole(row: ApplicationRecord) -> bool:
    """Whether what is searched of the record is that of its value: a server of an older release writes this alone."""
    return row.searched is not None and SearchedPlace.read(row.searched.split(" ")[-1]).revision == row.revision
