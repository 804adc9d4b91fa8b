"""HostedRecords: upgrades and changed indexes end, lose nothing, and stop neither each other nor what is well."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from services.mongodb import ON_MONGODB, fresh_database, server_url

from agentic_backend.agents.run.authors_calls import AuthorsCalls, CallFailed
from agentic_backend.application import Index, Kind, Record
from agentic_backend.errors import RecordConflict, StoreUnavailable
from agentic_backend.hosting.hosted_records import HostedRecords
from agentic_backend.records.layout import Layout
from agentic_backend.records.records import Records
from agentic_backend.stores.base import Store
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo.applications import record_batches
from agentic_backend.stores.mongo.documents import Database
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.stores.tables import APPLICATION_RECORDS, SESSION_APPLICATION_RECORDS
from tests.stores.faulty_database import FaultyDatabase, make_faulty
from tests.stores.samples import a_session


class Row(Record):
    w: str = ""
    n: int = 0


class Wider(Record):
    w: str = ""
    n: float = 0


ROWS = Kind("row", Row, owner="application")
COMMENTS = Kind("comment", Row, owner="session")
UNIQUE = {"by_w": Index("w", unique=True)}


@pytest.fixture(params=["sqlite", *ON_MONGODB])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "sqlite":
        opened: Store = await SqliteStore.open(tmp_path / "store.db", timeout_s=10)
        await opened.open_application_records()
        yield opened
        await opened.aclose()
        return
    async with fresh_database(server_url(request.param, request)) as url:
        opened = await MongoStore.open(url, timeout_s=10)
        await opened.open_application_records()
        yield opened
        await opened.aclose()


def records(store: Store, *kinds: Kind[Any]) -> Records:
    return Records(store, [Layout("app", kind) for kind in kinds])


def hosted(store: Store, *kinds: Kind[Any]) -> HostedRecords:
    return HostedRecords(store, "app", [Layout("app", kind) for kind in kinds], AuthorsCalls("app"))


async def ended(work: Awaitable[object]) -> None:
    async with asyncio.timeout(20):
        await work


def in_place(fields: dict[str, Any]) -> dict[str, Any]:
    fields["w"] = fields["w"].lower()
    return fields


class Evil:
    def __eq__(self, other: object) -> bool:
        raise SystemExit(7)

    __hash__ = object.__hash__


def evil(fields: dict[str, Any]) -> dict[str, Any]:
    told = {"w": fields["w"].lower()}
    fields["w"] = Evil()
    return told


@pytest.mark.parametrize("upgrade", [in_place, evil])
async def test_an_upgrade_that_makes_equal_values_ends_in_words(store: Store, upgrade: Callable[..., Any]) -> None:
    own = records(store, ROWS).of(ROWS).of_application()
    for w in ("A", "a", "other"):
        await own.add(Row(w=w), w)
    newer = replace(ROWS, version=2, upgrades={1: upgrade}, indexes=UNIQUE)
    with pytest.raises(RecordConflict, match="Two records of kind app:row have the same values"):
        await ended(hosted(store, newer).open())
    rows = await store.page(APPLICATION_RECORDS, None, 10)
    assert sorted(row.version for row in rows) == [1, 2, 2]


async def test_values_may_move_among_records(store: Store) -> None:
    pairs = Kind("row", Row, owner="application", indexes={"by": Index("w", "n", unique=True)})
    own = records(store, pairs).of(pairs).of_application()
    for n in range(3):
        await own.add(Row(w="w", n=n), f"{n}")
    turned = replace(pairs, indexes={"by": Index("n", "w", unique=True)})
    await ended(hosted(store, turned).open())
    risen = replace(turned, version=2, upgrades={1: lambda fields: {**fields, "n": fields["n"] + 1}})
    await ended(hosted(store, risen).open())
    found = await records(store, risen).of(risen).of_application().find("by", at_least=2)
    assert [each.key for each in found.records] == ["1", "2"]


async def test_a_field_of_another_type_is_found_by_its_new_one(store: Store) -> None:
    before = replace(ROWS, indexes={"by_n": Index("n")})
    await records(store, before).of(before).of_application().add(Row(n=2))
    after = Kind("row", Wider, owner="application", indexes=before.indexes)
    await ended(hosted(store, after).open())
    found = await records(store, after).of(after).of_application().find("by_n", 2)
    assert len(found.records) == 1


async def test_what_conflicts_stops_nothing_else_from_being_kept_up(store: Store) -> None:
    other = Kind("other", Row, owner="application", keep_days=0.00001)
    own = records(store, ROWS).of(ROWS).of_application()
    for w in ("same", "same", *map(str, range(5))):
        await own.add(Row(w=w))
    await records(store, other).of(other).of_application().add(Row())
    await asyncio.sleep(1)
    unique = replace(ROWS, indexes=UNIQUE)
    with pytest.raises(RecordConflict):
        await hosted(store, unique, other).upkeep(50)
    found = (await records(store, unique).of(unique).of_application().find("by_w")).records
    assert [each.value.w for each in found] == ["0", "1", "2", "3", "4", "same"]
    assert (await records(store, other).of(other).of_application().find()).records == []


async def test_a_kind_of_another_owner_is_another_kind(store: Store) -> None:
    await records(store, ROWS).of(ROWS).of_application().add(Row())
    with pytest.raises(CallFailed, match="OtherOwner"):
        await hosted(store, replace(ROWS, owner="user")).open()


@pytest.fixture(params=ON_MONGODB)
async def mongo(request: pytest.FixtureRequest) -> AsyncIterator[Callable[[], Awaitable[MongoStore]]]:
    """Opens the same MongoDB, another time each."""
    opened: list[MongoStore] = []
    async with fresh_database(server_url(request.param, request)) as url:

        async def open_() -> MongoStore:
            opened.append(await MongoStore.open(url, timeout_s=10))
            await opened[-1].open_application_records()
            return opened[-1]

        yield open_
        for store in opened:
            await store.aclose()


OpenMongo = Callable[[], Awaitable[MongoStore]]


async def test_what_is_left_of_a_session_is_read_by_nobody_and_in_nobodys_way(mongo: OpenMongo) -> None:
    store, dying = await mongo(), await mongo()
    await store.create_session(a_session("ann", id="s"))
    looked = 0

    def dies(collection: str, method: str) -> str:
        nonlocal looked
        looked += collection == "sessions"
        # It has looked for the session, and is gone before it looks again.
        return "fine" if looked < 2 else "refused"

    make_faulty(dying, dies)
    own = records(dying, COMMENTS).of(COMMENTS).of_session("ann", "s")
    with pytest.raises(StoreUnavailable):
        await own.add(Row(w="left"), "k")
    await store.driver.database["sessions"].delete_one({"_id": "s"})
    assert len(await store.page(SESSION_APPLICATION_RECORDS, None, 10)) == 1
    with pytest.raises(Exception, match="no such session"):
        await records(store, COMMENTS).of(COMMENTS).of_session("ann", "s").get("k")
    await ended(hosted(store, replace(COMMENTS, indexes={"by_w": Index("w")})).open())
    assert await store.page(SESSION_APPLICATION_RECORDS, None, 10) == []


async def test_a_batch_that_is_at_work_makes_others_wait_or_leave_it(mongo: OpenMongo) -> None:
    store, writing = await mongo(), await mongo()
    own = records(writing, ROWS).of(ROWS).of_application()
    kept = [await own.add(Row(w=w), w) for w in "ab"]
    seen: list[object] = []

    async def follow(collection: str, method: str, trip: Callable[[], Awaitable[Any]]) -> Any:
        if (collection, method) == ("application_batches", "update_one"):
            with pytest.raises(RecordConflict) as refused:
                await hosted(store, replace(ROWS, indexes=UNIQUE)).open()
            seen.append(refused.value.retryable)
            soon = store.now() + timedelta(minutes=1)
            seen.append(await store.delete_application_records("app:row", soon, 10, of_session=False))
        return await trip()

    real = writing.driver.database
    writing.driver.database = cast(Database, FaultyDatabase(real, lambda *_: "fine", follow))
    await records(writing, ROWS).write([own.changing(each, Row(w=f"{each.key}2")) for each in kept])
    assert seen == [True, 0]
    await ended(hosted(store, replace(ROWS, indexes=UNIQUE)).open())
    assert [each.value.w for each in (await own.find()).records] == ["a2", "b2"]


async def test_rows_that_do_not_count_keep_no_older_application_away(
    mongo: OpenMongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, dying = await mongo(), await mongo()
    newer = replace(ROWS, version=2, upgrades={1: in_place})
    own = records(dying, newer).of(newer).of_application()
    make_faulty(dying, lambda collection, method: "refused" if method in ("update_one", "delete_one") else "fine")
    with pytest.raises(StoreUnavailable):
        await records(dying, newer).write([own.adding(Row()), own.adding(Row())])
    await ended(hosted(store, ROWS).open())
    for _ in range(45):
        with pytest.raises(StoreUnavailable):
            await records(dying, ROWS).write([own.adding(Row()), own.adding(Row())])
    monkeypatch.setattr(record_batches, "_LEFT_S", -1.0)
    assert (await records(store, ROWS).of(ROWS).of_application().find()).records == []
    assert await store.driver.database["application_records"].count_documents({}) == 0
