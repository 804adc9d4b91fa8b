"""What every store does with records of applications, whichever database is beneath it."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from agentic_backend.errors import AgenticError, LimitReached, RecordConflict, SessionNotFound
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.application_records import (
    ApplicationRecord,
    Order,
    RecordQuery,
    RecordWrite,
    SearchedRecord,
)
from agentic_backend.stores.tables import SESSION_APPLICATION_RECORDS, records_table
from tests.stores.conftest import OpenStore
from tests.stores.samples import EPOCH, a_record, a_session, added

OWN = "notes:note ann "


def changed(record: ApplicationRecord, **fields: Any) -> RecordWrite:
    return RecordWrite(replace(record, revision=record.revision + 1, **fields))


def removed(record: ApplicationRecord) -> RecordWrite:
    return RecordWrite(record, is_removal=True)


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    store = await open_store()
    await store.open_application_records()
    return store


async def found(store: Store, order: Order = "id", first: str = "", behind: str = "~", **query: Any) -> list[str]:
    records = await store.find_application_records(RecordQuery(order, first, behind, **query))
    return [record.key for record in records]


async def test_a_record_is_inserted_changed_and_removed_in_its_revision_alone(
    store: Store, open_store: OpenStore
) -> None:
    first = a_record("k", value={"größe": [1.5, None, "\0"], "big": 2**80, "$set": {"a.b": ""}})
    await store.write_application_records(added(first))
    with pytest.raises(RecordConflict):
        await store.write_application_records(added(replace(first, value={})))
    other = await open_store()
    assert await other.get_application_records([first.id, "absent"], of_session=False) == [first]
    second = changed(first, value={}, updated_at=EPOCH + timedelta(minutes=3))
    await other.write_application_records([second])
    for late in (changed(first, value={"late": 1}), removed(first)):
        with pytest.raises(RecordConflict):
            await store.write_application_records([late])
    assert await store.get_application_records([first.id], of_session=False) == [second.record]
    await store.write_application_records([removed(second.record)])
    assert await store.get_application_records([first.id], of_session=False) == []
    with pytest.raises(RecordConflict):
        await store.write_application_records([changed(second.record)])


async def test_a_record_that_was_inserted_again_is_another_one(store: Store) -> None:
    first, again = a_record("k"), a_record("k", minute=1, value={"is": "another"})
    await store.write_application_records(added(first))
    await store.write_application_records([removed(first)])
    await store.write_application_records(added(again, a_record("other")))
    for late in (changed(first), removed(first)):
        for others in ([], [removed(a_record("other"))]):
            with pytest.raises(RecordConflict):
                await store.write_application_records([late, *others])
    assert await store.get_application_records([first.id], of_session=False) == [again]


async def test_of_writers_of_the_same_record_one_wins(open_store: OpenStore) -> None:
    stores = [await open_store(), await open_store()]
    for store in stores:
        await store.open_application_records()

    async def try_to(write: list[RecordWrite], store: Store) -> bool:
        try:
            await store.write_application_records(write)
        except RecordConflict:
            return False
        return True

    records = [a_record("k", value={"n": n}) for n in range(6)]
    won = await asyncio.gather(*(try_to(added(each), stores[0]) for each in records))
    assert sum(won) == 1
    [there] = await stores[0].get_application_records([records[0].id], of_session=False)
    won = await asyncio.gather(*(try_to([changed(there, value={"n": n})], stores[0]) for n in range(6)))
    assert sum(won) == 1
    pairs = [added(a_record("x"), a_record(f"{n}", unique_1="same")) for n in range(6)]
    won = await asyncio.gather(*(try_to(pair, stores[n % 2]) for n, pair in enumerate(pairs)))
    assert sum(won) <= 1
    assert len(await found(stores[1])) == 1 + 2 * sum(won)


async def test_a_unique_value_is_in_one_record_only(store: Store) -> None:
    first, second = a_record("1", unique_1="a", unique_2="x"), a_record("2", unique_1="b")
    await store.write_application_records(added(first, second))
    for clash in (
        added(a_record("3", unique_1="a")),
        added(a_record("3", "bob", unique_2="x")),
        [changed(second, unique_1="a")],
    ):
        with pytest.raises(RecordConflict):
            await store.write_application_records(clash)
    renamed = changed(second, unique_1="c")
    await store.write_application_records([renamed])
    await store.write_application_records(added(a_record("3", unique_1="b")))
    assert await found(store) == ["1", "2", "3"]
    assert await found(store, "unique_1", "b", "b~") == ["3"]


async def test_several_writes_count_all_or_none(store: Store) -> None:
    stored = [a_record(f"{n}", index_1=f"{n}", unique_1=f"u{n}") for n in range(4)]
    await store.write_application_records(added(*stored))
    before = await store.get_application_records([each.id for each in stored], of_session=False)
    whole = [
        *added(a_record("new", unique_1="free")),
        changed(stored[1], value={"is": "changed"}, index_1="9"),
        removed(stored[2]),
    ]
    for spoiler in (
        *added(a_record("0")),
        *added(a_record("other", unique_1="u3")),
        changed(replace(stored[3], revision=4)),
        changed(stored[3], unique_1="moved"),
        changed(a_record("absent")),
        removed(replace(stored[3], revision=2)),
    ):
        for order in ([spoiler, *whole], [*whole, spoiler]):
            with pytest.raises(RecordConflict):
                await store.write_application_records(order)
            assert await found(store) == ["0", "1", "2", "3"]
            assert await store.get_application_records([each.id for each in stored], of_session=False) == before
    await store.write_application_records(whole)
    assert await found(store) == ["0", "1", "3", "new"]
    assert await found(store, "index_1", "1", "~") == ["3", "1"]
    # Each can be written again.
    await store.write_application_records([removed(whole[0].record), changed(whole[1].record)])
    assert await found(store) == ["0", "1", "3"]


async def test_nobody_keeps_more_than_the_limit(store: Store) -> None:
    await store.write_application_records(added(a_record("1"), a_record("2"), most=3))
    for more in (added(a_record("3"), a_record("4"), most=3), added(a_record("3"), most=2)):
        with pytest.raises(LimitReached, match="No more than"):
            await store.write_application_records(more)
    await store.write_application_records(added(a_record("3"), a_record("1", "bob"), most=3))
    assert await found(store, first=OWN, behind=f"{OWN}~") == ["1", "2", "3"]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("order", ["id", "index_2"])
async def test_records_are_found_in_order_page_by_page(store: Store, order: Order, descending: bool) -> None:
    records = [a_record(f"{n:02}", index_2=None if n == 6 else f"n {n // 3} {n}") for n in range(9)]
    await store.write_application_records(added(*records[::-1], a_record("x", "bob", index_2="m")))
    first, behind = (OWN, f"{OWN}~") if order == "id" else ("n ", "n ~")
    query = RecordQuery(order, first, behind, descending=descending, limit=2)
    keys: list[str] = []
    while page := await store.find_application_records(query):
        assert len(page) <= 2
        keys += [record.key for record in page]
        query = replace(query, after=getattr(page[-1], order))
    expected = [f"{n:02}" for n in range(9) if order == "id" or n != 6]
    assert keys == (expected[::-1] if descending else expected)
    assert await found(store, "index_2", "n 0", "n 1") == ["00", "01", "02"]


async def test_records_of_a_session_are_its_users_and_go_with_it(store: Store) -> None:
    for user in ("ann", "bob"):
        await store.create_session(a_session(user, id=f"of {user}"))
    own = a_record("1", session_id="of ann")
    await store.write_application_records(added(own, a_record("1", "bob", session_id="of bob"), a_record("1")))
    wrong: tuple[dict[str, Any], ...] = ({"session_id": "of bob"}, {"session_id": "absent"})
    for fields in wrong:
        with pytest.raises(SessionNotFound):
            await store.write_application_records(added(a_record("2"), a_record("3", **fields)))
    assert await store.get_application_records([own.id], of_session=True) == [own]
    assert await found(store, of_session=True) == ["1", "1"] and await found(store) == ["1"]
    await store.delete_session("of ann")
    assert await store.page(SESSION_APPLICATION_RECORDS, None, 10, user_id="ann") == []
    assert await found(store, of_session=True) == ["1"] and await found(store) == ["1"]
    with pytest.raises(SessionNotFound):
        await store.write_application_records([changed(own)])


async def test_a_session_that_goes_takes_what_is_just_being_written(store: Store) -> None:
    await store.create_session(a_session(id="goes"))

    async def write(n: int) -> AgenticError | None:
        records = [a_record(f"{n} {part}", session_id="goes") for part in range(1 + n % 2)]
        try:
            await store.write_application_records(added(*records))
        except SessionNotFound as error:
            return error
        return None

    await asyncio.gather(*(write(n) for n in range(4)), store.delete_session("goes"), *(write(n) for n in range(4, 8)))
    assert await store.page(SESSION_APPLICATION_RECORDS, None, 10) == []


async def test_what_is_old_or_of_another_layout_is_found(store: Store) -> None:
    await store.create_session(a_session(id="session"))
    places = [{}, {"session_id": "session"}]
    for place in places:
        await store.write_application_records(
            added(
                a_record("old", version=1, minute=1, **place),
                a_record("other", version=2, layout="b", minute=2, **place),
                a_record("new", version=2, minute=3, **place),
                a_record("newer", version=3, layout="b", minute=4, **place),
                a_record("foreign", kind="notes:tag", version=1, minute=1, **place),
            )
        )
    assert await store.application_record_kinds() == {"notes:note": 3, "notes:tag": 1}
    for of_session in (False, True):
        outdated = await store.outdated_application_records("notes:note", 2, "a", 10, of_session=of_session)
        assert {record.key for record in outdated} == {"old", "other"}
        assert len(await store.outdated_application_records("notes:note", 2, "a", 1, of_session=of_session)) == 1
        before = EPOCH + timedelta(minutes=3)
        counts = [
            await store.delete_application_records("notes:note", before, 1, of_session=of_session) for _ in range(3)
        ]
        assert counts == [1, 1, 0]
        assert await found(store, of_session=of_session) == ["foreign", "new", "newer"]


async def test_a_change_keeps_the_vector_or_leaves_another(store: Store) -> None:
    stored = [a_record(f"{n}", searched=f"{n}", vector=b"old") for n in range(3)]
    await store.write_application_records(added(*stored))
    keeping, replacing, removing = {"keeps_vector": True}, {"vector": b"new"}, dict[str, Any]()
    # Each alone, then all together.
    for size in (1, 3):
        writes = [
            replace(changed(each, value={"size": size}, vector=way.get("vector")), keeps_vector="keeps_vector" in way)
            for each, way in zip(stored, (keeping, replacing, removing), strict=True)
        ]
        for first in range(0, 3, size):
            await store.write_application_records(writes[first : first + size])
        stored = [write.record for write in writes]
        read = await store.get_application_records([each.id for each in stored], of_session=False)
        assert [each.value for each in read] == [{"size": size}] * 3
        found = await store.searched_records("vector", ["0", "1", "2"], of_session=False)
        assert {each.key: each.content for each in found} == {"0": b"old", "1": b"new", "2": None}


async def test_what_is_searched_is_found_by_its_place(store: Store) -> None:
    await store.create_session(a_session(id="session"))
    for session_id in (None, "session"):
        of_session = session_id is not None
        own = [
            a_record(f"{n}", searched=f"a {n}", words="1 größe\n2 b" if n else "", session_id=session_id, **vector)
            for n, vector in enumerate([{"vector": b"\0\xff"}, {"vector": b"\0" * 16_384}, {}, {}])
        ]
        without = a_record("without", session_id=session_id)
        await store.write_application_records(added(*own[::-1], without))
        assert await store.get_application_records([own[1].id], of_session=of_session) == [
            replace(own[1], words=None, vector=None)
        ]
        [whole, *_] = await store.page(records_table(of_session=of_session), None, 10)
        assert whole == own[0]

        async def places(after: str = "a", behind: str = "a~", limit: int = 10, of: bool = of_session) -> list[str]:
            return await store.searched_places(after, behind, limit, of_session=of)

        assert await places() == ["a 0", "a 1", "a 2", "a 3"]
        assert await places("a 0", "a 3") == ["a 1", "a 2"] and await places(limit=2) == ["a 0", "a 1"]
        await store.write_application_records([changed(own[1], searched="a 4"), removed(own[2])])
        assert await places() == ["a 0", "a 3", "a 4"]
        found = await store.searched_records("words", ["a 0", "a 1", "a 2", "a 4", "absent"], of_session=of_session)
        assert sorted(found, key=lambda each: each.key) == [
            SearchedRecord("0", "a 0", ""),
            SearchedRecord("1", "a 4", "1 größe\n2 b"),
        ]
        found = await store.searched_records("vector", ["a 0", "a 3"], of_session=of_session)
        assert {(each.key, each.content) for each in found} == {("0", b"\0\xff"), ("3", None)}
    await store.delete_session("session")
    assert await store.searched_places("a", "a~", 10, of_session=True) == []
    assert len(await store.searched_places("a", "a~", 10, of_session=False)) == 3
