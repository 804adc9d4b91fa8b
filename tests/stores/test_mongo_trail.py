"""The trail in MongoDB: what dead writers leave of it goes, it costs nothing where it is empty, and indexes answer."""

from collections.abc import AsyncIterator

import pytest
from services.mongodb import ON_PLANNING_MONGODB
from support.mongo_commands import Commands

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.cursors import cursor_at
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo.documents import indexes
from agentic_backend.stores.protocol.trail import AuditRecord, TrailQuery, UsageRecord
from agentic_backend.stores.tables import TRAIL
from tests.stores.conftest import OpenMongo
from tests.stores.faulty_database import make_faulty, once
from tests.stores.samples import EPOCH, a_session, an_end, an_exchange, answer, begin, begin_new, question
from tests.stores.test_mongo_reads import has_index
from tests.stores.trail_samples import a_usage, an_audit, one_of_each


@pytest.fixture
def commands() -> Commands:
    return Commands()


@pytest.fixture
async def store(mongodb_url: str, commands: Commands) -> AsyncIterator[MongoStore]:
    store = await MongoStore.open(mongodb_url, timeout_s=10, event_listeners=[commands])
    yield store
    await store.aclose()


async def trail_of(store: MongoStore, session_id: str) -> list[str]:
    database = store.driver.database
    return [
        name
        for name in (t.name for t in TRAIL.values() if t.of_session)
        if await database[name].count_documents({"session_id": session_id})
    ]


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("fate", ["refused", "unheard"])
async def test_what_an_ask_leaves_that_never_begins_is_removed(open_mongo: OpenMongo, is_new: bool, fate: str) -> None:
    store = await open_mongo()
    session = a_session()
    if not is_new:
        await store.create_session(session)
    exchange = an_exchange(session)
    trail = one_of_each(session.id, exchange_id=exchange.id)
    real = make_faulty(store, once("messages", "insert_many", fate))
    with pytest.raises(StoreUnavailable):
        await store.begin_exchange(exchange, question(), session if is_new else None, trail=trail)
    store.driver.database = real
    assert await trail_of(store, session.id)
    for _ in range(2):
        assert await store.running_exchanges() == []
    # Summaries and shares belong to no exchange; they go with their session.
    assert await trail_of(store, session.id) == ([] if is_new else ["summaries", "shares"])
    assert len((await store.trail(TrailQuery(UsageRecord))).records) == 1


async def test_a_write_whose_answer_got_lost_leaves_its_trail_once(open_mongo: OpenMongo) -> None:
    store = await open_mongo()
    fence = await begin_new(store)
    audit, usage = an_audit(fence.session_id), a_usage()
    real = make_faulty(store, once("sessions", "find_one_and_update", "unheard"))
    with pytest.raises(StoreUnavailable):
        await store.append(fence, [answer()], an_end(), trail=[audit, usage], token="t")
    store.driver.database = real
    await store.append(fence, [answer()], an_end(), trail=[audit, usage], token="t")
    assert (await store.trail(TrailQuery(AuditRecord))).records == [audit]
    assert (await store.trail(TrailQuery(UsageRecord))).records == [usage]


async def test_without_a_trail_a_write_costs_no_round_trip_more(store: MongoStore, commands: Commands) -> None:
    session = a_session()
    await store.create_session(session)
    commands.clear()
    fence = await begin(store, session)
    await store.append(fence, [answer()], an_end())
    without = sorted(commands.names)
    fence = await begin(store, session)
    commands.clear()
    await store.append(fence, [answer()], an_end(), trail=one_of_each(session.id))
    written = {f"update {table.name}" for table in TRAIL.values()}
    assert not written & set(without)
    assert sorted(set(commands.names) - set(without)) == sorted(written)


@pytest.mark.parametrize("mongodb_server", ON_PLANNING_MONGODB, indirect=True)
async def test_records_are_found_by_an_index_in_their_order(store: MongoStore, commands: Commands) -> None:
    commands.clear()
    asked = 0
    for kind, table in TRAIL.items():
        fields = {column.name: column.field for column in table.columns}
        # The others serve reads in an order of their own.
        for column, *_ in (index for index in table.indexes.values() if "-at" in index):
            where = {fields[column]: "x"} if column in fields else {}
            for cursor in (None, cursor_at(EPOCH, "x")):
                await store.trail(TrailQuery(kind, where, cursor=cursor))
                asked += 1
    assert len(commands.sent) == asked > 40
    for find in commands.sent:
        # The place in a page is a range of the order's columns.
        find["filter"] = {name: value for name, value in find["filter"].items() if name != "$or"}
        assert has_index(find), find


def test_a_sum_of_a_user_s_or_a_group_s_usage_reads_only_its_index() -> None:
    keys = [[name for name, _ in keys] for collection, keys, _ in indexes() if collection == "usage"]
    for first in ("user_id", "user_group"):
        assert [first, "at", "_id", "currency", "cost", "input_tokens", "output_tokens"] in keys
