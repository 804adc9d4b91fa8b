"""What every store does with all of a user's rows, whichever database is beneath it."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.base import Store
from agentic_backend.stores.mongo.sessions.sessions import collections_of_session
from agentic_backend.stores.protocol.items import SHARED, ItemBounds
from agentic_backend.stores.protocol.usage_sums import UsageQuery
from agentic_backend.stores.protocol.user_rows import hidden_name
from agentic_backend.stores.records import UserDeletion
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.stores.tables import (
    EXCHANGES,
    ITEMS,
    KPI_RECORDS,
    MESSAGES,
    OUTLIVE_USERS,
    SESSIONS,
    TABLES,
    USAGE,
    Table,
)
from tests.stores.conftest import OpenMongo
from tests.stores.faulty_database import make_faulty, once
from tests.stores.samples import (
    EPOCH,
    a_checkpoint,
    a_kpi,
    a_record,
    a_session,
    added,
    an_attachment,
    an_end,
    an_exchange,
    an_item,
    answer,
    begin,
    in_pieces,
    question,
    run_exchanges,
)
from tests.stores.trail_samples import a_usage, one_of_each


async def fill(store: Store, user_id: str) -> None:
    """Rows in every table, of two sessions."""
    for name in ("first", "second"):
        session = a_session(user_id, id=f"{user_id} {name}")
        await store.create_session(session)
        await run_exchanges(store, session, 2)
        fence = await begin(store, session)
        kpi = a_kpi(user_id, exchange_id=fence.exchange_id)
        trail = one_of_each(session.id, user_id)
        await store.append(fence, [answer()], an_end(kpi=kpi, session_state=name.encode()), a_checkpoint(), trail=trail)
        await store.open_application_records()
        own = a_record(name, user_id), a_record(f"in {name}", user_id, session_id=session.id)
        await store.write_application_records(added(*own))
    await store.add_attachment(an_attachment(b"x", user_id), in_pieces(b"x"), 1_000)
    await store.put_items([an_item("a", f"{n}", owner=user_id) for n in range(3)], [], ItemBounds())


async def rows(store: Store, user_id: str) -> dict[str, int]:
    """How many rows are the user's, by table."""
    return {
        table.name: len(await store.page(table, None, 100, user_id=user_id))
        for table in TABLES
        if table.user is not None
    }


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_table_says_whose_its_rows_are(table: Table[Any]) -> None:
    assert table.user is not None or table.of_session or table in OUTLIVE_USERS
    if table.user is not None:
        assert table.user in table.names or table is KPI_RECORDS
        assert table.of_session or any(columns[0] == table.user for columns in table.indexes.values())


async def test_all_rows_of_a_user_go_and_those_of_others_stay(store: Store) -> None:
    for user_id in ("ann", "bob", SHARED):
        await fill(store, user_id)
    theirs = await rows(store, "bob")
    assert all(theirs.values()) and theirs["sessions"] == 2
    while session_ids := await store.sessions_to_delete("ann", 1):
        assert len(session_ids) == 1 and session_ids[0].startswith("ann")
        await store.delete_session(session_ids[0])
    for table in TABLES:
        while table.user is not None and await store.delete_user_rows(table, "ann", 2):
            pass
    assert set((await rows(store, "ann")).values()) == {0}
    assert await store.page(MESSAGES, None, 10, session_id="ann first") == []
    assert await store.state_after("ann first", -1) is None
    assert await rows(store, "bob") == theirs == await rows(store, SHARED)


async def test_rows_are_read_page_by_page(store: Store) -> None:
    await fill(store, "ann")
    await fill(store, "bob")
    for table, count in ((SESSIONS, 2), (KPI_RECORDS, 2), (ITEMS, 3), (USAGE, 2)):
        read: list[Any] = []
        while page := await store.page(table, getattr(read[-1], table.order) if read else None, 2, user_id="ann"):
            read += page
        assert len({getattr(row, table.key[0]) for row in read}) == len(read) == count
    ranks = [row.rank for row in await store.page(MESSAGES, 1, 3, session_id="ann first")]
    assert ranks == [2, 3, 4]
    first = await store.page(EXCHANGES, None, 2, session_id="ann first")
    rest = await store.page(EXCHANGES, first[-1].first_rank, 2, session_id="ann first")
    assert [row.first_rank for row in (*first, *rest)] == [0, 2, 4]


async def test_states_are_read_one_by_one(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    for number in range(3):
        fence = await begin(store, session)
        await store.append(fence, [answer()], an_end(session_state=f"{number}".encode()))
    read, rank = [], -1
    while (found := await store.state_after(session.id, rank)) is not None:
        rank, state = found
        read.append((rank, state))
    assert read == [(2, b"0"), (4, b"1"), (6, b"2")]


async def test_a_deletion_is_kept_until_it_ends(store: Store) -> None:
    first = UserDeletion(user_id="ann", at=EPOCH, until=EPOCH + timedelta(minutes=1))
    later = replace(first, until=EPOCH + timedelta(minutes=2))
    other = replace(first, user_id="bob")
    for deletion in (first, other, later):
        await store.keep_deletion(deletion)
    await store.end_deletion(first)
    assert await store.deletions() == [later, other] and await store.deletions(1) == [later]
    await store.end_deletion(later)
    assert await store.deletions() == [other]


async def test_a_session_that_was_begun_or_half_deleted_is_found(open_mongo: OpenMongo) -> None:
    store = await open_mongo()
    await fill(store, "ann")
    new = a_session("bob", id="half begun")
    make_faulty(store, once("sessions", "insert_one", "refused"))
    with pytest.raises(StoreUnavailable):
        await store.begin_exchange(an_exchange(new), question(), new)
    make_faulty(store, once("messages", "delete_many", "refused"))
    with pytest.raises(StoreUnavailable):
        await store.delete_session("ann first")
    found = set()
    while session_ids := await store.sessions_to_delete("bob", 10):
        found |= set(session_ids)
        for session_id in session_ids:
            await store.delete_session(session_id)
    assert found == {"half begun", "ann first"}
    database = store.driver.database
    for collection in collections_of_session():
        for session_id in found:
            assert await database[collection].count_documents({"session_id": session_id}) == 0


async def test_what_was_deleted_is_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = await SqliteStore.open(path, timeout_s=10)
    try:
        for number in range(40):
            user_id = "canary" if number % 2 else "bob"
            session = a_session(user_id, title=f"{user_id} title")
            await store.create_session(session)
            fence = await begin(store, session)
            long = f"{user_id} " * 10 ** (number % 5)
            end = an_end(session_state=long.encode(), kpi=a_kpi(user_id))
            await store.append(fence, [answer(long)], end, trail=one_of_each(session.id, user_id, long[:99]))
        while session_ids := await store.sessions_to_delete("canary", 10):
            for session_id in session_ids:
                await store.delete_session(session_id)
        for table in TABLES:
            if table.user is not None:
                await store.delete_user_rows(table, "canary", 1_000)
        await store.writer.write("reads", lambda db: db.execute("DELETE FROM admin_reads"))
        files = [path, path.with_name("store.db-wal")]

        def in_files(text: bytes) -> int:
            return sum(file.read_bytes().count(text) for file in files)

        assert await asyncio.to_thread(in_files, b"canary") > 0
        with closing(sqlite3.connect(path, check_same_thread=False)) as reader:
            # A report that takes its time.
            for statement in ("BEGIN", "SELECT count(*) FROM sessions"):
                await asyncio.to_thread(reader.execute, statement)
            erasing = asyncio.create_task(store.erase())
            await asyncio.sleep(0.5)
            assert not erasing.done()
            await asyncio.to_thread(reader.rollback)
            await erasing
        assert await asyncio.to_thread(in_files, b"canary") == 0
        assert await asyncio.to_thread(in_files, b"bob title") >= 20
        assert len(await store.page(SESSIONS, None, 100)) == 20
    finally:
        await store.aclose()


async def test_of_usage_that_budgets_count_only_the_day_the_group_and_the_cost_stay(store: Store) -> None:
    kept, hidden = a_usage("ann", minute=24 * 60 + 5, estimated=True), hidden_name("ann")
    others = [a_usage("ann", minute=5), a_usage("bob", minute=24 * 60 + 5)]
    await store.add_trail([kept, *others])
    since = EPOCH + timedelta(days=1)
    assert [await store.hide_usage("ann", hidden, since, 2) for _ in range(2)] == [1, 0]
    [left] = await store.page(USAGE, None, 10, user_id=hidden)
    assert left == replace(
        kept,
        **dict.fromkeys(("session_id", "exchange_id", "agent_id", "input_tokens", "output_tokens", "priced_on")),
        **{"user_id": hidden, "at": since, "model": "unknown", "purpose": "internal", "estimated": None},
    )
    assert "ann" not in hidden
    [spent] = await store.usage_sums(UsageQuery(hidden, since=since))
    [by_group] = await store.usage_sums(UsageQuery(group=kept.group, since=since))
    assert (spent.costs, by_group.costs) == ({"EUR": 0.5}, {"EUR": 1.0})
    assert [row.at for row in await store.page(USAGE, None, 10, user_id="ann")] == [others[0].at]
    assert await store.delete_hidden_usage(since, 10) == 0
    assert await store.delete_hidden_usage(since + timedelta(days=1), 10) == 1
    assert len(await store.page(USAGE, None, 10)) == 2
