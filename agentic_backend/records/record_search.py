"""RecordSearch: finds records by their words, the same on every store.

What ranks them is in memory; what is found is what the store has. So a record that was removed or changed elsewhere is
not found as it was, however old the memory is.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from agentic_backend.loop.event_loop import in_thread_if_long
from agentic_backend.records.partition import Partition
from agentic_backend.records.partition_cache import PartitionCache
from agentic_backend.records.searched_place import SearchedPlace
from agentic_backend.records.word_index import Sought, best, work_of
from agentic_backend.records.words import sought_words
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.application_records import ApplicationRecord, SearchedRecord

# Others may remove and change records faster than they are looked for: then fewer are found.
_ROUNDS = 4


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
        for turn in range(_ROUNDS):
            async with _held(partitions):
                # If what is found is gone again, so may be much else.
                for partition in partitions if turn in (0, 2) else ():
                    await partition.look(self._store, whole=turn > 0)
                hits = await _best(partitions, sought, limit)
            ids = [id_of(hit.key) for hit in hits]
            rows = await self._store.get_application_records(ids, of_session=of_session) if ids else []
            there = {row.key: row for row in rows}
            found = [(there[hit.key], hit.score) for hit in hits if _is_as_in(there, hit)]
            if len(found) == len(hits):
                break
            async with _held(partitions):
                for hit in hits:
                    if not _is_as_in(there, hit):
                        _correct(partitions, hit, there.get(hit.key))
        return found


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


def _is_as_in(there: Mapping[str, ApplicationRecord], hit: _Hit) -> bool:
    row = there.get(hit.key)
    return row is not None and row.searched == hit.place and _is_written_whole(row)


def _is_written_whole(row: ApplicationRecord) -> bool:
    """Whether what is searched of the record is that of its value: a server of an older release writes this alone."""
    return row.searched is not None and SearchedPlace.read(row.searched.split(" ")[-1]).revision == row.revision


def _correct(partitions: Sequence[Partition], hit: _Hit, row: ApplicationRecord | None) -> None:
    """Have the record in memory as it is in the store."""
    for partition in partitions:
        if partition.has(hit.place):
            partition.forget(hit.place)
        if row is not None and partition.has(row.searched or "") and _is_written_whole(row):
            partition.put(SearchedRecord(row.key, row.searched or "", row.words or ""))
