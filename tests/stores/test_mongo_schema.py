"""The schema of a MongoDB: stamped, refused where it needs a newer server, brought up to date beside old servers."""

import asyncio
from typing import Any

import pytest
from services.mongodb import ON_MONGODB, ON_PLANNING_MONGODB

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.base import Store
from agentic_backend.stores.mongo import MongoStore, schema
from agentic_backend.stores.mongo.documents import Database
from agentic_backend.stores.mongo.schema import MIGRATIONS, Migration, Step
from agentic_backend.stores.opening import CannotOpenStore, open_mongodb
from agentic_backend.stores.schema import SchemaTooNew
from agentic_backend.stores.sqlite import SqliteStore
from tests.stores.conftest import OpenMongo, OpenStore
from tests.stores.faulty_database import make_faulty, once
from tests.stores.samples import a_session, run_exchanges

ON_BOTH = pytest.mark.parametrize("mongodb_server", [*ON_MONGODB, *ON_PLANNING_MONGODB], indirect=True)
OLD_MARKS = '{"extras":{"inner":2,"reached":[5],"other":1}}'


async def stamp(store: MongoStore) -> dict[str, Any]:
    found = await store.driver.database["meta"].find_one({"_id": "schema"})
    assert found is not None
    return found


async def make_older(store: MongoStore) -> str:
    """Leave the database as a server that knew no schema version: without a stamp, with old forms of messages.

    Returns the id of its session, in which every second one of ten messages has the old form.
    """
    session = a_session()
    await store.create_session(session)
    await run_exchanges(store, session, 5)
    database = store.driver.database
    await database["messages"].update_many({"rank": {"$mod": [2, 1]}}, {"$set": {"metadata": OLD_MARKS}})
    await database["messages"].update_many({}, {"$unset": {"inner": "", "reached": ""}})
    await database["meta"].delete_many({})
    return session.id


async def upgrade(store: Store) -> list[tuple[str | None, int, int]]:
    """Take all steps; what each has told."""
    told = []
    while (done := await store.upgrade()).name is not None:
        told.append((done.name, done.changed, done.left))
    assert await store.upgrades_left() == 0
    return told


@ON_BOTH
async def test_a_new_database_has_the_newest_version_and_nothing_is_left_to_do(open_mongo: OpenMongo) -> None:
    store = await open_mongo()
    assert await stamp(store) == {"_id": "schema", "version": len(MIGRATIONS), "min_reader": 0}
    assert await upgrade(store) == []


async def test_a_file_is_up_to_date_once_it_is_open(open_store: OpenStore) -> None:
    store = await open_store()
    assert isinstance(store, SqliteStore | MongoStore)
    assert await upgrade(store) == []


@ON_BOTH
async def test_marks_of_messages_come_to_their_own_fields_batch_by_batch(
    open_mongo: OpenMongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_BATCH", 4)
    session_id = await make_older(await open_mongo())
    store = await open_mongo()
    before = await store.messages_after(session_id, -1, 100)
    assert {message.inner for message in before} == {None, 2}
    assert await store.upgrades_left() == len(MIGRATIONS)
    told = await upgrade(store)
    assert [name for name, _, _ in told] == ["marks_of_messages"] * 3
    assert sum(changed for _, changed, _ in told) == 5 and told[-1][2] == 0
    assert await store.messages_after(session_id, -1, 100) == before
    rows = await store.driver.database["messages"].find({"rank": 1}).to_list(None)
    assert [(row["inner"], row["reached"]) for row in rows] == [(2, "[5]")]
    assert "reached" not in rows[0]["metadata"] and '"other":1' in rows[0]["metadata"]
    assert (await stamp(store))["version"] == len(MIGRATIONS)


async def test_an_interrupted_migration_goes_on_where_it_was_and_a_repeated_step_changes_nothing(
    open_mongo: OpenMongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_BATCH", 4)
    await make_older(await open_mongo())
    first = await open_mongo()
    assert (await first.upgrade()).changed == 2
    # The batch is done, and the database goes away before its place is stored.
    make_faulty(first, once("meta", "update_one", "refused"))
    with pytest.raises(StoreUnavailable):
        await first.upgrade()
    second = await open_mongo()
    place = (await stamp(second))["place"]
    done = await second.upgrade()
    assert done.changed == 0, "they were changed before the interruption"
    assert (await stamp(second))["place"] > place
    assert sum(changed for _, changed, _ in await upgrade(second)) == 5 - 4


async def test_two_instances_that_migrate_at_the_same_time_do_no_harm(
    open_mongo: OpenMongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_BATCH", 3)
    session_id = await make_older(await open_mongo())
    one, other = await open_mongo(), await open_mongo()
    before = await one.messages_after(session_id, -1, 100)
    while (await one.upgrade()).name is not None or (await other.upgrade()).name is not None:
        pass
    assert await other.messages_after(session_id, -1, 100) == before
    assert (await stamp(one))["version"] == len(MIGRATIONS)


async def test_a_database_that_needs_a_newer_server_is_refused_in_the_words_of_a_file(
    open_mongo: OpenMongo, mongodb_url: str
) -> None:
    store, newer = await open_mongo(), len(MIGRATIONS) + 1
    meta = store.driver.database["meta"]
    await meta.update_one({"_id": "schema"}, {"$set": {"version": newer}})
    await open_mongo(), "what it reads is as it was"
    await meta.update_one({"_id": "schema"}, {"$set": {"min_reader": newer}})
    words = f"schema version {newer}, and this server knows versions up to {len(MIGRATIONS)}: run the newer server"
    with pytest.raises(SchemaTooNew, match=words):
        await open_mongo()
    with pytest.raises(CannotOpenStore, match=words):
        await open_mongodb(mongodb_url, "pymongo", 10)


async def test_a_migration_that_older_servers_do_not_understand_keeps_them_out_from_its_beginning(
    open_mongo: OpenMongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = len(MIGRATIONS)

    async def step(database: Database, place: int | None) -> Step:
        return Step(1 if place is None else None, 0)

    await open_mongo()
    with monkeypatch.context() as newer:
        newer.setattr(schema, "MIGRATIONS", (*MIGRATIONS, Migration("next", step, min_reader=known + 1)))
        store = await open_mongo()
        assert (await store.upgrade()).left == 1
        assert await stamp(store) == {"_id": "schema", "version": known, "min_reader": known + 1, "place": 1}
    with pytest.raises(SchemaTooNew):
        await open_mongo()


@ON_BOTH
async def test_a_new_index_of_what_is_stored_is_made_while_servers_run(open_mongo: OpenMongo) -> None:
    store = await open_mongo()
    await make_older(store)
    await upgrade(store)
    database = store.driver.database
    await database["messages"].drop_index([("exchange_id", 1), ("rank", 1)])
    await database["exchanges"].drop_index([("asked_as", 1)])
    await database["usage"].drop_index([("at", -1), ("_id", -1)])
    store = await open_mongo()
    # A unique one, and one of an empty collection, are there at once.
    assert await store.upgrades_left() == 1
    assert await upgrade(store) == [("index messages exchange_id_rank", 0, 0)]
    made = (await database["messages"].index_information()).values()
    assert ["exchange_id", "rank"] in [[name for name, _ in each["key"]] for each in made]


@ON_BOTH
async def test_servers_that_open_a_new_database_at_the_same_time_make_one_schema(open_mongo: OpenMongo) -> None:
    stores = await asyncio.gather(*(open_mongo() for _ in range(6)))
    assert await stamp(stores[0]) == {"_id": "schema", "version": len(MIGRATIONS), "min_reader": 0}
    assert [await store.upgrades_left() for store in stores] == [0] * 6


async def test_what_no_application_uses_is_not_made(open_mongo: OpenMongo) -> None:
    store = await open_mongo()
    assert await store.upgrades_left() == 0
    assert "application_records" not in await store.driver.database.list_collection_names()
    for _ in range(2):
        await store.open_application_records()
        for name in ("application_records", "session_application_records"):
            made = await store.driver.database[name].index_information()
            assert len(made) > 9 and sum(bool(index.get("unique")) for index in made.values()) == 2
    assert await (await open_mongo()).upgrades_left() == 0
