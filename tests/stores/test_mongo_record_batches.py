"""Batches of records of applications in MongoDB whose writers die: they count whole or not at all."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from agentic_backend.errors import RecordConflict, StoreUnavailable
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo.applications import record_batches
from agentic_backend.stores.mongo.documents import Database
from agentic_backend.stores.protocol.application_records import RecordQuery, RecordWrite
from agentic_backend.stores.tables import APPLICATION_RECORDS
from tests.stores.conftest import OpenMongo
from tests.stores.faulty_database import FaultyDatabase, make_faulty
from tests.stores.samples import a_record, added

OLD = [a_record(f"{n}", index_1=f"{n}", vector=b"old") for n in range(3)]
BATCH = [
    *added(a_record("new", unique_1="taken", vector=b"new")),
    RecordWrite(replace(OLD[0], revision=2, index_1="8", vector=None), keeps_vector=True),
    RecordWrite(replace(OLD[1], revision=2, index_1="9", value={"is": "changed"}, vector=b"new")),
    RecordWrite(OLD[2], is_removal=True),
]
BEFORE = {"0": ("0", b"old"), "1": ("1", b"old"), "2": ("2", b"old")}
AFTER = {"0": ("8", b"old"), "1": ("9", b"new"), "new": (None, b"new")}


async def told(store: MongoStore) -> dict[str, tuple[str | None, bytes | None]]:
    records = await store.find_application_records(RecordQuery("id", "", "~"))
    by_index = await store.find_application_records(RecordQuery("index_1", "", "~"))
    assert {each.id for each in by_index} == {each.id for each in records if each.index_1 is not None}
    whole = await store.page(APPLICATION_RECORDS, None, 10)
    assert [replace(each, vector=None) for each in whole] == records
    assert (await store.total())["application_records"] == len(records)
    return {each.key: (each.index_1, each.vector) for each in whole}


async def die_at(store: MongoStore, trip: int, *, is_heard: bool) -> int:
    """Let the store write the batch and die at that round trip, which the database may still do; how many it made."""
    made = 0

    def fate(collection: str, method: str) -> str:
        nonlocal made
        made += 1
        return "fine" if made < trip else "unheard" if made == trip and is_heard else "refused"

    make_faulty(store, fate)
    with pytest.raises(StoreUnavailable):
        await store.write_application_records(BATCH)
        raise StoreUnavailable
    return made


@pytest.mark.parametrize("is_heard", [False, True])
async def test_a_batch_counts_whole_or_not_at_all_wherever_its_writer_dies(
    open_mongo: OpenMongo, monkeypatch: pytest.MonkeyPatch, is_heard: bool
) -> None:
    outcomes: list[bool] = []
    await (await open_mongo()).open_application_records()
    for trip in range(1, 30):
        clean = await open_mongo()
        await clean.driver.database["application_records"].delete_many({})
        await clean.write_application_records(added(*OLD))
        made = await die_at(await open_mongo(), trip, is_heard=is_heard)
        monkeypatch.setattr(record_batches, "_LEFT_S", 60.0)
        counts = await told(clean) == AFTER
        assert counts or await told(clean) == BEFORE
        monkeypatch.setattr(record_batches, "_LEFT_S", -1.0)
        assert await told(clean) == (AFTER if counts else BEFORE)
        assert await clean.driver.database["application_batches"].count_documents({}) == 0
        outcomes.append(counts)
        if made < trip:
            break
        # What it has left is in nobody's way.
        [first] = await clean.get_application_records([OLD[1].id], of_session=False)
        await clean.write_application_records([RecordWrite(first, is_removal=True), *added(a_record("1 more"))])
        assert ("1 more" in await told(clean)) and "1" not in await told(clean)
    assert outcomes == sorted(outcomes) and set(outcomes) == {False, True} and len(outcomes) >= 8


async def test_who_reads_and_writes_by_key_completes_what_a_dead_writer_has_left(
    open_mongo: OpenMongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = await open_mongo()
    await clean.open_application_records()
    await clean.write_application_records(added(*OLD))
    # All are prepared, and the batch does not count.
    await die_at(await open_mongo(), 4, is_heard=False)
    prepared = await clean.driver.database["application_records"].count_documents({"batch": {"$ne": None}})
    assert prepared == 4
    ids = [each.record.id for each in BATCH]
    assert {each.key for each in await clean.get_application_records(ids, of_session=False)} == {"0", "1", "2"}
    for write in (*added(a_record("other", unique_1="taken")), RecordWrite(OLD[2], is_removal=True)):
        with pytest.raises(RecordConflict):
            await clean.write_application_records([write])
    monkeypatch.setattr(record_batches, "_LEFT_S", -1.0)
    await clean.write_application_records(added(a_record("other", unique_1="taken")))
    await clean.write_application_records([RecordWrite(OLD[2], is_removal=True)])
    assert await told(clean) == {"0": BEFORE["0"], "1": BEFORE["1"], "other": (None, None)}


async def test_a_slow_writer_whose_batch_was_undone_is_told_so(
    open_mongo: OpenMongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean, slow = await open_mongo(), await open_mongo()
    await clean.open_application_records()
    await clean.write_application_records(added(*OLD))
    monkeypatch.setattr(record_batches, "_LEFT_S", -1.0)
    met: list[str] = []

    async def follow(collection: str, method: str, trip: Callable[[], Awaitable[Any]]) -> Any:
        if method in ("update_one", "bulk_write"):
            met.append(collection)
            assert await told(clean) == BEFORE
        return await trip()

    slow.driver.database = cast(Database, FaultyDatabase(slow.driver.database, lambda *_: "fine", follow))
    with pytest.raises(RecordConflict):
        await slow.write_application_records(BATCH)
    assert met == ["application_records", "application_batches"]
    assert await told(clean) == BEFORE
    assert await clean.driver.database["application_records"].count_documents({}) == 3


async def test_a_document_of_before_there_were_vectors_has_none(open_mongo: OpenMongo) -> None:
    store = await open_mongo()
    await store.open_application_records()
    await store.write_application_records(added(a_record("k", searched="s")))
    await store.driver.database["application_records"].update_one({}, {"$unset": {"vector": 1, "words": 1}})
    [found] = await store.searched_records("vector", ["s"], of_session=False)
    [whole] = await store.page(APPLICATION_RECORDS, None, 10)
    assert (found.content, whole.vector, whole.words) == (None, None, None)
    await store.write_application_records([RecordWrite(replace(whole, revision=2), keeps_vector=True)])
    await store.write_application_records([RecordWrite(replace(whole, revision=3, vector=b"new"))])
    [found] = await store.searched_records("vector", ["s"], of_session=False)
    assert found.content == b"new"
