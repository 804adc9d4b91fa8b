"""Partition: what is in memory follows the store, also what was written late, removed elsewhere, or often."""

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentic_backend.records import partition as partition_module
from agentic_backend.records.kinds import Kind, Record, Words
from agentic_backend.records.layout import Layout
from agentic_backend.records.partition import Partition
from agentic_backend.records.word_index import WordIndex, best
from agentic_backend.records.words import sought_words
from agentic_backend.stores.protocol.application_records import ApplicationRecord, RecordWrite
from agentic_backend.stores.sqlite import SqliteStore

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Page(Record):
    text: str


LAYOUT = Layout("app", Kind("page", Page, owner="application", words=Words("text")))


class Clock:
    now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "store.db", timeout_s=10, wall=clock)
    await store.open_application_records()
    yield store
    await store.aclose()


def a_partition(whole_every_s: float = 3_600) -> Partition[WordIndex]:
    return Partition(WordIndex, LAYOUT.searched_together("", None), of_session=False, whole_every_s=whole_every_s)


def found(partition: Partition[WordIndex], query: str) -> dict[str, float]:
    """The scores by key."""
    hits = best([partition.index], sought_words(query), 100)
    return {partition.record(slot)[0]: round(score, 9) for score, _, slot in hits}


async def add(store: SqliteStore, at: datetime, **texts: str) -> list[ApplicationRecord]:
    rows = [LAYOUT.new_row(Page(text=text), key, None, None, at) for key, text in texts.items()]
    await store.write_application_records([RecordWrite(row, most=1_000, among=LAYOUT.beginning("")) for row in rows])
    return rows


async def change(store: SqliteStore, row: ApplicationRecord, text: str) -> ApplicationRecord:
    write = RecordWrite(LAYOUT.changed_row(row, Page(text=text), store.now(), store.now()))
    await store.write_application_records([write])
    return write.record


async def test_what_is_written_with_a_late_clock_is_read(store: SqliteStore, clock: Clock) -> None:
    partition = a_partition()
    await partition.look(store)
    await add(store, NOON - timedelta(seconds=50), late="word")
    await partition.look(store)
    assert found(partition, "word").keys() == {"late"}
    await add(store, NOON - timedelta(minutes=5), later="word")
    clock.now += timedelta(minutes=5)
    await partition.look(store)
    assert found(partition, "word").keys() == {"late"}
    await partition.look(store, whole=True)
    assert found(partition, "word").keys() == {"late", "later"}


async def test_a_look_that_began_after_a_time_is_enough_for_who_wants_no_newer_one(
    store: SqliteStore, clock: Clock
) -> None:
    partition = a_partition()
    began = time.monotonic()
    await partition.look(store, since=began)
    await add(store, NOON, new="word")
    await partition.look(store, since=began)
    assert not found(partition, "word")
    await partition.look(store, since=time.monotonic())
    assert found(partition, "word")


async def test_what_is_removed_counts_until_a_look_goes_through_all(store: SqliteStore, clock: Clock) -> None:
    rows = await add(store, NOON, a="word", b="word more", c="other")
    partitions = [a_partition(), a_partition(whole_every_s=0)]
    for partition in partitions:
        await partition.look(store)
    clock.now += timedelta(minutes=5)
    await store.write_application_records([RecordWrite(rows[1], is_removal=True)])
    anew = a_partition()
    for partition in (*partitions, anew):
        await partition.look(store)
    assert found(partitions[0], "word").keys() == {"a", "b"}
    assert found(partitions[1], "word") == found(anew, "word") and found(anew, "word").keys() == {"a"}


async def test_a_record_that_is_changed_again_and_again_takes_no_more_memory(store: SqliteStore, clock: Clock) -> None:
    [row, *_] = await add(store, NOON, often="word 0", still="word other")
    partition, sizes = a_partition(), list[int]()
    for number in range(300):
        row = await change(store, row, f"word {number}")
        await partition.look(store)
        sizes.append(partition.bytes)
    assert max(sizes) == max(sizes[:150])
    anew = a_partition()
    await anew.look(store)
    assert found(partition, "word 299") == found(anew, "word 299")


async def test_no_more_is_read_than_has_changed(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(partition_module, "_PLACES", 3)
    monkeypatch.setattr(WordIndex, "read_at_once", 2)
    rows = await add(store, NOON, **{f"k{number}": "word" for number in range(10)})
    partition = a_partition()
    await partition.look(store)
    assert len(found(partition, "word")) == 10
    clock.now += timedelta(minutes=5)
    await partition.look(store)
    await change(store, rows[3], "word")
    read: list[str] = []
    real = store.searched_places

    async def searched_places(after: str, behind: str, limit: int, *, of_session: bool) -> list[str]:
        places = await real(after, behind, limit, of_session=of_session)
        read.extend(places)
        return places

    monkeypatch.setattr(store, "searched_places", searched_places)
    await partition.look(store)
    assert len(read) == 1 and len(found(partition, "word")) == 10
