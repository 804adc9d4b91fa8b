"""A read of a window fetches its own rows and no others, by conditions that an index answers."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from pymongo.errors import ExecutionTimeout
from services.mongodb import ON_MONGODB, ON_PLANNING_MONGODB
from support.mongo_commands import Commands

from agentic_backend.errors import RateLimited, StoreUnavailable
from agentic_backend.stores.base import SessionQuery, took_too_long
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo.documents import Database, indexes
from agentic_backend.stores.protocol.items import ItemBounds, item_id
from agentic_backend.stores.protocol.kpi_figures import Aggregation
from tests.stores.samples import (
    a_kpi,
    a_kpi_query,
    a_session,
    an_end,
    an_item,
    answer,
    as_kpis,
    begin,
    begin_new,
    fence_after,
    kpis_of,
    run_exchanges,
)

EXCHANGES = 12


@pytest.fixture
def commands() -> Commands:
    return Commands()


@pytest.fixture
async def store(mongodb_url: str, commands: Commands) -> AsyncIterator[MongoStore]:
    """Two sessions of the same user, of 24 messages each, `one` and `other`; and an exchange asked as `key`."""
    store = await MongoStore.open(mongodb_url, timeout_s=10, event_listeners=[commands])
    for name in ("one", "other"):
        session = a_session(id=name)
        await store.create_session(session)
        await run_exchanges(store, session, EXCHANGES)
    await store.append(await begin_new(store, "bob", client_exchange_id="key"), [answer()], an_end())
    await store.finishing.all()
    yield store
    await store.aclose()


def fetched(commands: Commands) -> dict[str, int]:
    """How many documents came from each collection."""
    counts: dict[str, int] = {}
    for reply in commands.replies:
        name = reply["cursor"]["ns"].rpartition(".")[2]
        batch = reply["cursor"].get("firstBatch", reply["cursor"].get("nextBatch"))
        counts[name] = counts.get(name, 0) + len(batch)
    return counts


def has_index(find: dict[str, Any]) -> bool:
    """Whether an index begins with what is compared, the range last, and gives the order that is asked for."""
    collection, conditions = find["find"], dict(find["filter"])
    if "_id" in conditions and isinstance(conditions["_id"], str):
        return True
    equal = {key for key, value in conditions.items() if not isinstance(value, dict)}
    ranges = [key for key, value in conditions.items() if isinstance(value, dict)]
    order = [key for key in find.get("sort", {}) if key not in equal]
    for name, keys, _ in indexes():
        names = [key for key, _ in keys]
        behind = names[len(equal) :]
        if name == collection and set(names[: len(equal)]) == equal:
            if behind[: len(ranges)] == ranges and behind[: len(order)] == order:
                return True
    return False


Read = Callable[[MongoStore], Awaitable[Any]]


READS: list[tuple[Read, dict[str, int]]] = [
    (lambda store: store.messages_after("one", 3, 5), {"sessions": 1, "messages": 5}),
    (lambda store: store.messages_after("one", 22, 100), {"sessions": 1, "messages": 1}),
    # One exchange more than is wanted, for the last one may be running.
    (lambda store: store.last_exchanges("one", 2), {"sessions": 1, "exchanges": 3, "messages": 4}),
    (lambda store: store.get_session("one"), {"sessions": 1}),
    (lambda store: store.list_sessions(SessionQuery("ann", limit=1)), {"sessions": 2}),
    (lambda store: store.find_exchange("bob", "key"), {"exchanges": 1}),
]


@pytest.mark.parametrize("mongodb_server", ON_PLANNING_MONGODB, indirect=True)
async def test_a_read_touches_only_its_rows(store: MongoStore, commands: Commands) -> None:
    for number, (read, documents) in enumerate(READS):
        commands.clear()
        assert await read(store)
        assert fetched(commands) == documents, number
        assert [find for find in commands.sent if not has_index(find)] == [], number
        await examines_only_what_it_fetches(store, commands)


async def examines_only_what_it_fetches(store: MongoStore, commands: Commands) -> None:
    """FerretDB can't tell, and doesn't use its indexes."""
    for find, reply in zip(list(commands.sent), list(commands.replies), strict=True):
        query = {key: find[key] for key in ("find", "filter", "sort", "limit", "projection") if key in find}
        plan = await store.driver.database.command("explain", query, verbosity="executionStats")
        if "executionStats" in plan:
            assert plan["executionStats"]["totalDocsExamined"] <= len(reply["cursor"]["firstBatch"])


async def test_a_repeated_write_reads_only_what_it_wrote(store: MongoStore, commands: Commands) -> None:
    fence = await begin(store, a_session(id="one"), first_rank=24)
    fence = fence_after(await store.append(fence, [answer()] * 5), fence.exchange_id)
    written = await store.append(fence, [answer("last")], token="t")
    commands.clear()
    assert await store.append(fence, [answer("last")], token="t") == written
    reads = [
        (command, reply) for command, reply in zip(commands.sent, commands.replies, strict=True) if "find" in command
    ]
    # The first read looks for rows in the way of the write.
    assert [command["find"] for command, _ in reads] == ["messages", "sessions", "exchanges", "messages"]
    assert [len(reply["cursor"]["firstBatch"]) for _, reply in reads] == [1, 1, 1, 1]


async def test_many_items_are_stored_in_one_request(store: MongoStore, commands: Commands) -> None:
    commands.clear()
    await store.put_items(
        [an_item("a", str(number)) for number in range(200)], [item_id("ann", "a", "x")], ItemBounds()
    )
    assert [name for name in commands.names if "find" not in name] == ["update items", "delete items"]
    commands.clear()
    assert await store.item_namespaces("ann") == ["a"]
    assert fetched(commands) == {"items": 1}


async def test_the_server_knows_how_long_a_search_and_a_report_may_take(store: MongoStore, commands: Commands) -> None:
    commands.clear()
    await store.list_sessions(SessionQuery("ann", text="text"))
    await store.kpi_figures(a_kpi_query("ann"))
    assert {next(iter(command.values())) for command in commands.sent} == {"sessions", "messages", "kpi_records"}
    assert all(0 < command["maxTimeMS"] <= 10_000 for command in commands.sent)


async def test_what_the_server_ended_is_no_store_that_is_away(store: MongoStore) -> None:
    async def slow(database: Database) -> None:
        raise ExecutionTimeout("operation exceeded time limit", 50)

    with pytest.raises(RateLimited):
        await store.driver.run("search", slow, late=took_too_long)
    with pytest.raises(StoreUnavailable):
        await store.driver.run("get_session", slow)


async def test_the_messages_of_an_exchange_are_read_by_its_index(store: MongoStore, commands: Commands) -> None:
    fence = await begin(store, a_session(id="one"), first_rank=24)
    commands.clear()
    assert len(await store.exchange_messages(fence.exchange_id)) == 1
    assert fetched(commands) == {"exchanges": 1, "sessions": 1, "messages": 1}
    assert all(map(has_index, commands.sent))


@pytest.mark.parametrize("mongodb_server", [*ON_MONGODB, *ON_PLANNING_MONGODB], indirect=True)
async def test_of_a_report_no_more_comes_than_there_are_buckets(store: MongoStore, commands: Commands) -> None:
    """But from a server that knows too little of pipelines, which sends the records, a batch at a time."""
    for number in range(40):
        await store.record_kpi(a_kpi(minute=number // 10, latency_ms=number, failed_tools=number % 3))
    wanted = tuple(Aggregation(field, name) for field in ("latency_ms", "failed_tools") for name in ("mean", "p95"))
    commands.clear()
    found = await store.kpi_figures(a_kpi_query("ann", seconds=60, groupby=(), aggregations=wanted))
    means = pytest.approx(1, abs=0.2)
    assert [bucket.figures for bucket in found] == [(4.5 + 10 * n, 9 + 10 * n, means, 2) for n in range(4)]
    [look, *pipelines] = zip(commands.sent, commands.replies, strict=True)
    assert look[1]["cursor"]["firstBatch"] == []
    if pipelines[0][1]:
        assert [next(iter(command)) for command, _ in pipelines] == ["aggregate"] * 3
        assert [len(reply["cursor"]["firstBatch"]) for _, reply in pipelines] == [4, 4, 4]
    else:
        assert [next(iter(command)) for command, _ in pipelines] == ["aggregate", "find"]


async def test_records_of_an_older_schema_are_in_the_figures(store: MongoStore) -> None:
    records = [a_kpi(minute=minute) for minute in range(3)]
    for record in records:
        await store.record_kpi(record)
    later = {"at": "", "figures": "", "groups": ""}
    await store.driver.database["kpi_records"].update_one({"_id": records[1].exchange_id}, {"$unset": later})
    assert await kpis_of(store, "ann") == as_kpis(*records)
