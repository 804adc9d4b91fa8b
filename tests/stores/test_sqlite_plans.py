"""What SQLite reads: no statement scans a table, and a long session costs no more than a short one."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import cast, get_args

import pytest
from support import kpi_rows

from agentic_backend.protocol.messages import SessionState
from agentic_backend.stores.base import SessionChange, SessionQuery, cursor_after
from agentic_backend.stores.cursors import cursor_at
from agentic_backend.stores.protocol.application_records import Order, RecordQuery, RecordWrite
from agentic_backend.stores.protocol.items import ItemBounds, ItemQuery
from agentic_backend.stores.protocol.kpi_figures import Aggregation
from agentic_backend.stores.protocol.message_search import MessageSearch
from agentic_backend.stores.protocol.session_search import SessionSearch
from agentic_backend.stores.protocol.trail import TrailQuery
from agentic_backend.stores.protocol.usage_sums import UsageQuery
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.stores.sqlite.sessions.exchanges import _DROP_CHECKPOINTS
from agentic_backend.stores.tables import TRAIL
from tests.stores.samples import (
    EPOCH,
    a_checkpoint,
    a_decision,
    a_kpi,
    a_kpi_query,
    a_partial,
    a_pause,
    a_piece,
    a_record,
    a_session,
    added,
    an_end,
    an_exchange,
    an_item,
    answer,
    begin,
    begin_new,
    question,
    run_exchanges,
    stored,
)
from tests.stores.trail_samples import one_of_each


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path, timeout_s=10)
    yield store
    await store.aclose()


@pytest.fixture
async def statements(store: SqliteStore) -> list[str]:
    """The statements that the store's connections run from now on, with their parameters in place."""
    ran: list[str] = []
    for connection in (store.writer, store.reader, store.lister, store.searcher, store.reporter):
        await connection.read("trace", lambda db: db.set_trace_callback(ran.append))
    return ran


async def plan_of(path: Path, statement: str) -> list[str]:
    """The lines of SQLite's plan, each one table or one sorting."""

    def explain() -> list[str]:
        with closing(sqlite3.connect(path)) as db:
            return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}")]

    return await asyncio.to_thread(explain)


async def use_everything(store: SqliteStore) -> None:
    session = a_session()
    await store.create_session(session)
    first = await begin(store, session, client_exchange_id="key", owner="one")
    await store.keep_partials("one", {first.exchange_id: [a_partial()]})
    await store.add_partials([a_piece(first, "one", 0, " it")])
    await store.forget_pieces([first.exchange_id])
    await store.partial(first.exchange_id)
    await store.set_waiting(first, a_pause())
    await store.decide(await stored(store, first.exchange_id), [a_decision()], "one")
    await store.checkpoint(first.exchange_id)
    await store.fence(session.id)
    await store.append(first, [answer()], an_end(kpi=a_kpi(), session_state=b"state"), a_checkpoint())
    new = a_session()
    await store.begin_exchange(an_exchange(new), question(), new)
    await store.name_session(session.id, "Title")
    await store.change_session(session.id, SessionChange(title="Title", pinned=True, archived=False))
    await store.statuses([first.exchange_id])
    await store.search_sessions(SessionSearch("ann", ["t", "u"], cursor=cursor_after(session)))
    await store.index_texts(1)
    await store.search_sessions(SessionSearch("ann", ["hello"]))
    await store.find_messages(MessageSearch("ann", ["hello"]))
    await store.list_sessions(SessionQuery("ann", text="hello"))
    for mark in (True, False):
        await store.list_sessions(SessionQuery("ann", pinned=mark))
        await store.list_sessions(SessionQuery("ann", archived=mark))
    await store.get_session(session.id)
    await store.session_state(session.id)
    await store.get_exchange(first.exchange_id)
    await store.find_exchange("ann", "key")
    await store.client_exchange_ids([first.exchange_id])
    await store.running_exchanges()
    await store.running_exchanges(not_of=["two"], not_among=[first.exchange_id])
    await store.running_among("one", [first.exchange_id])
    await store.expired_exchanges(EPOCH)
    await store.count_waiting("ann")
    await store.waiting_exchanges()
    await store.count_asked(session.id, 5)
    await store.count_empty_sessions("ann")
    await store.exchange_messages(first.exchange_id)
    await store.messages_after(session.id, 0, 10)
    await store.last_exchanges(session.id, 3)
    await store.record_kpi(a_kpi())
    for user_id in ("ann", None):
        await store.kpi_figures(a_kpi_query(user_id, aggregations=(Aggregation("latency_ms", "p50"),)))
    await store.list_sessions(SessionQuery("ann"))
    await store.list_sessions(
        SessionQuery("ann", agent_id="a", state=SessionState.ACTIVE, text="t", cursor=cursor_after(session))
    )
    await store.put_items([an_item("a.b", "k")], ["absent"], ItemBounds())
    await store.get_items(["absent"])
    await store.find_items(ItemQuery("ann", "a"))
    await store.item_namespaces("ann")
    await use_application_records(store, session.id)
    await use_the_trail(store, session.id)
    await store.idle_sessions(SessionState.ACTIVE, EPOCH, 10)
    await store.reset_state(session.id)
    await store.complete_session(session.id, EPOCH)
    await store.delete_session(session.id)


async def use_application_records(store: SqliteStore, session_id: str) -> None:
    await store.open_application_records()
    for place in (None, session_id):
        record, of_session = a_record("k", session_id=place), place is not None
        await store.write_application_records(added(record))
        await store.write_application_records([RecordWrite(replace(record, revision=2))])
        await store.write_application_records([RecordWrite(replace(record, revision=2), is_removal=True)])
        await store.get_application_records([record.id], of_session=of_session)
        for order in get_args(Order):
            for after, descending in ((None, False), ("a", False), ("a", True)):
                query = RecordQuery(order, "a", "b", of_session, after=after, descending=descending)
                await store.find_application_records(query)
        await store.searched_places("a", "b", 10, of_session=of_session)
        await store.searched_records("vector", ["a", "b"], of_session=of_session)
        await store.outdated_application_records("notes:note", 2, "a", 10, of_session=of_session)
        await store.delete_application_records("notes:note", EPOCH, 10, of_session=of_session)
    await store.application_record_kinds()


async def use_the_trail(store: SqliteStore, session_id: str) -> None:
    await store.add_trail(one_of_each(session_id))
    for record, table in TRAIL.items():
        await store.trail(TrailQuery(record, since=EPOCH))
        fields = {column.name: column.field for column in table.columns}
        for column, *_ in table.indexes.values():
            if column in fields:
                await store.trail(TrailQuery(record, {fields[column]: "x"}, cursor=cursor_at(EPOCH, "x")))
        if table.time is not None:
            await store.delete_old(table, EPOCH, 10)
    await store.hide_usage("ann", "deleted:x", EPOCH, 10)
    await store.delete_hidden_usage(EPOCH, 10)
    for name in ("user_id", "group", "session_id", "exchange_id"):
        await store.usage_sums(UsageQuery(**{name: "x"}, by=("day",)))
    await store.usage_sums(UsageQuery(since=EPOCH))


_FEW = ("SCAN picked", "SCAN (subquery", "SCAN sqlite_schema", "SCAN sessions USING INDEX sessions_unindexed")


async def test_no_statement_scans_a_table(store: SqliteStore, statements: list[str], path: Path) -> None:
    await use_everything(store)
    queries = [
        statement
        for statement in statements
        if statement.split()[0] in ("SELECT", "UPDATE", "DELETE")
        and not statement.startswith("--")
        # FTS5 reads its own tables.
        and "'.'message_texts_" not in statement
    ]
    assert len(queries) > 20
    for query in queries:
        for line in await plan_of(path, query):
            # Of the KPI records, `picked` are those that a user and a time have picked; a table of FTS5's is searched
            # by its own index; and the index of what isn't in that has little else.
            assert not line.startswith("SCAN") or line.startswith(_FEW) or "VIRTUAL TABLE INDEX" in line, (line, query)


async def test_a_page_of_records_is_read_in_its_order(store: SqliteStore, statements: list[str], path: Path) -> None:
    await store.open_application_records()
    for order, named in (("index_1", "session_application_records_by_index_1"), ("id", "sqlite_autoindex")):
        for after in (None, "a"):
            query = RecordQuery(cast(Order, order), "a", "b", of_session=True, after=after, descending=True)
            await store.find_application_records(query)
            [line] = await plan_of(path, statements[-1])
            assert line.startswith(f"SEARCH session_application_records USING INDEX {named}")


async def test_places_are_read_of_their_index_alone(store: SqliteStore, statements: list[str], path: Path) -> None:
    await store.open_application_records()
    await store.searched_places("a", "b", 10, of_session=False)
    [line] = await plan_of(path, statements[-1])
    assert line.startswith("SEARCH application_records USING COVERING INDEX application_records_by_searched")


@pytest.mark.parametrize("cursor", [None, cursor_after(a_session())], ids=["first", "next"])
async def test_a_page_of_sessions_is_read_in_its_order(
    store: SqliteStore, statements: list[str], path: Path, cursor: str | None
) -> None:
    await store.list_sessions(SessionQuery("ann", cursor=cursor))
    place = "" if cursor is None else " AND (updated_at,id)<(?,?)"
    assert await plan_of(path, statements[-1]) == [
        f"SEARCH sessions USING INDEX sessions_by_activity (user_id=?{place})"
    ]


async def test_the_last_exchanges_are_found_by_index(store: SqliteStore, statements: list[str], path: Path) -> None:
    fence = await begin_new(store)
    await store.append(fence, [answer()], an_end())
    statements.clear()
    await store.last_exchanges(fence.session_id, 5)
    assert [await plan_of(path, statement) for statement in statements] == [
        ["SEARCH sessions USING INDEX sqlite_autoindex_sessions_1 (id=?)"],
        ["SEARCH exchanges USING INDEX exchanges_by_rank (session_id=? AND first_rank>? AND first_rank<?)"],
        ["SEARCH messages USING INDEX messages_by_exchange (exchange_id=?)"],
    ]


def repeat_exchange(path: Path, session_id: str, times: int) -> None:
    """Copy the one exchange of a session, of two messages, `times` times, straight into the file."""
    changed = {
        "exchanges": {"id": "id || '-' || i", "first_rank": "first_rank + 2 * i"},
        "messages": {"exchange_id": "exchange_id || '-' || i", "rank": "rank + 2 * i"},
    }
    with closing(sqlite3.connect(path)) as db, db:
        for table, changes in changed.items():
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            db.execute(
                f"INSERT INTO {table} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
                f" SELECT {', '.join(changes.get(column, column) for column in columns)} FROM {table}, n"
                " WHERE session_id = ?",
                (times, session_id),
            )
        moved = "UPDATE sessions SET next_rank = next_rank + 2 * ? WHERE id = ?"
        db.execute(moved, (times, session_id))


async def test_the_last_exchanges_cost_the_same_in_a_long_session_as_in_a_short_one(
    store: SqliteStore, path: Path
) -> None:
    """Counted in instructions of SQLite's machine: one for each thousandth row would already show."""
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    # A search that meets the end of an index takes an instruction less; this id keeps the others from it.
    await begin_new(store, id="zzz")
    costs = []
    for exchanges in (10, 10_000):
        session = a_session()
        await store.create_session(session)
        await run_exchanges(store, session, 1)
        await asyncio.to_thread(repeat_exchange, path, session.id, exchanges - 1)
        await store.reader.read("count", lambda db: db.set_progress_handler(step, 1))
        steps = 0
        messages = await store.last_exchanges(session.id, 5)
        costs.append(steps)
        assert [message.rank for message in messages] == list(range(2 * exchanges - 10, 2 * exchanges))
    assert costs[0] == costs[1] > 0


async def test_what_has_not_ended_is_found_by_index(store: SqliteStore, statements: list[str], path: Path) -> None:
    await store.expired_exchanges(EPOCH)
    assert await plan_of(path, statements[-1]) == [
        "SEARCH exchanges USING INDEX exchanges_due (status=? AND deadline<?)"
    ]
    await store.running_exchanges(not_of=["one"], not_among=["a", "b"])
    assert await plan_of(path, statements[-1]) == ["SEARCH exchanges USING INDEX exchanges_due (status=?)"]


async def test_what_a_user_piles_up_is_counted_by_index(store: SqliteStore, statements: list[str], path: Path) -> None:
    await store.count_waiting("ann")
    assert await plan_of(path, statements[-1]) == [
        "SEARCH exchanges USING COVERING INDEX exchanges_waiting (user_id=? AND status=?)"
    ]
    await store.count_empty_sessions("ann")
    assert await plan_of(path, statements[-1]) == [
        "SEARCH sessions USING COVERING INDEX sessions_empty (user_id=? AND next_rank=?)"
    ]


async def test_an_ask_drops_a_checkpoint_at_the_same_cost_in_a_long_session(store: SqliteStore, path: Path) -> None:
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    await begin_new(store, id="zzz")
    costs = []
    for exchanges in (10, 10_000):
        session = a_session()
        await store.create_session(session)
        [exchange_id] = await run_exchanges(store, session, 1)
        await asyncio.to_thread(repeat_exchange, path, session.id, exchanges - 1)
        keep = f"UPDATE exchanges SET checkpoint = x'00' WHERE id = '{exchange_id}-1'"
        await store.writer.write("keep", lambda db, keep=keep: db.execute(keep))
        await store.writer.read("count", lambda db: db.set_progress_handler(step, 1))
        steps = 0
        dropped = await store.writer.read(
            "drop", lambda db, session=session: db.execute(_DROP_CHECKPOINTS, (session.id,)).rowcount
        )
        costs.append(steps)
        await store.writer.read("count", lambda db: db.set_progress_handler(None, 0))
        assert dropped == 1
    assert costs[0] == costs[1] > 0


async def test_of_a_report_over_100_000_records_only_the_buckets_are_fetched(store: SqliteStore, path: Path) -> None:
    fetched = 0

    def count(cursor: sqlite3.Cursor, row: tuple[object, ...]) -> sqlite3.Row:
        nonlocal fetched
        fetched += 1
        return sqlite3.Row(cursor, row)

    def set_count(db: sqlite3.Connection) -> None:
        db.row_factory = count

    await asyncio.to_thread(kpi_rows.fill, path, "ann", 100_000)
    await store.reporter.read("count", set_count)
    wanted = (Aggregation("latency_ms", "mean"), Aggregation("latency_ms", "p95"), Aggregation("tool_calls", "sum"))
    hours = a_kpi_query("ann", end=EPOCH + timedelta(days=2), seconds=3600, groupby=(), aggregations=wanted)
    found = await store.kpi_figures(hours)
    assert len(found) == fetched == 28
