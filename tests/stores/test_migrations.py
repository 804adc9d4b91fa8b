"""The schema: made from nothing, kept at a reopening, refused where a newer server wrote it."""

import asyncio
import sqlite3
from contextlib import AsyncExitStack, aclosing, closing
from pathlib import Path

import pytest

from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.base import KeptState
from agentic_backend.stores.protocol.application_records import RecordWrite
from agentic_backend.stores.records import CheckpointKind
from agentic_backend.stores.schema import SchemaTooNew
from agentic_backend.stores.sqlite import SqliteStore, migrations
from agentic_backend.stores.sqlite.connection import SqliteConnection
from agentic_backend.stores.sqlite.migrations import MIGRATIONS, migrate
from tests.stores.samples import a_decision, a_record, a_session, added, an_end, answer, stored


def run(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """Run `statements` on a connection of their own; the rows of the last."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            rows = db.execute(statement).fetchall()
        return rows


async def migrated(path: Path) -> None:
    connection = await SqliteConnection.open(path, timeout_s=5)
    try:
        await migrate(connection)
    finally:
        await connection.aclose()


async def migrated_to(path: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an earlier server left it, which had neither the later migrations nor today's columns."""
    with monkeypatch.context() as earlier:
        earlier.setattr(migrations, "MIGRATIONS", MIGRATIONS[:version])
        earlier.setattr(migrations, "TABLES", [])
        await migrated(path)


async def test_an_empty_file_gets_the_newest_schema(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await migrated(path)
    assert await asyncio.to_thread(run, path, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    # Without those that FTS5 makes for its own.
    named = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'message_texts_%' ORDER BY name"
    tables = await asyncio.to_thread(run, path, named)
    assert [name for (name,) in tables] == [
        "activities",
        "admin_reads",
        "agent_versions",
        "application_records",
        "attachments",
        "exchanges",
        "extractions",
        "feedback",
        "items",
        "journal_marks",
        "kpi_records",
        "message_audit",
        "message_texts",
        "messages",
        "module_errors",
        "partial_pieces",
        "prompts",
        "session_application_records",
        "session_states",
        "sessions",
        "shares",
        "summaries",
        "tool_calls",
        "usage",
        "user_deletions",
    ]


async def test_what_was_stored_is_there_after_a_reopening(tmp_path: Path) -> None:
    session = a_session()
    async with aclosing(await SqliteStore.open(tmp_path / "store.db", timeout_s=5)) as store:
        await store.create_session(session)
    assert not await asyncio.to_thread((tmp_path / "store.db-wal").exists)
    async with aclosing(await SqliteStore.open(tmp_path / "store.db", timeout_s=5)) as store:
        assert await store.get_session(session.id) == session


async def test_instances_that_open_a_new_file_at_once_migrate_it_once(tmp_path: Path) -> None:
    async with AsyncExitStack() as opened:

        async def open_() -> SqliteStore:
            return await opened.enter_async_context(
                aclosing(await SqliteStore.open(tmp_path / "store.db", timeout_s=10))
            )

        stores = await asyncio.gather(*(open_() for _ in range(8)))
        session = a_session()
        await stores[0].create_session(session)
        assert [await store.get_session(session.id) for store in stores] == [session] * 8


async def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await asyncio.to_thread(run, path, "CREATE TABLE later (x)", f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(SchemaTooNew, match=rf"version {len(MIGRATIONS) + 1}, .* up to {len(MIGRATIONS)}:"):
        await SqliteStore.open(path, timeout_s=5)
    assert await asyncio.to_thread(run, path, "SELECT name FROM sqlite_schema") == [("later",)]


async def test_records_of_before_there_were_vectors_have_none(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with aclosing(await SqliteStore.open(path, timeout_s=10)) as store:
        await store.open_application_records()
        await store.write_application_records(added(a_record("k", searched="s", vector=b"old")))
    await asyncio.to_thread(run, path, "ALTER TABLE application_records DROP COLUMN vector")
    async with aclosing(await SqliteStore.open(path, timeout_s=10)) as store:
        [found] = await store.searched_records("vector", ["s"], of_session=False)
        assert found.content is None
        await store.write_application_records([RecordWrite(a_record("k", searched="s", revision=2, vector=b"new"))])
        [found] = await store.searched_records("vector", ["s"], of_session=False)
        assert found.content == b"new"


async def test_a_later_migration_keeps_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    await migrated(path)
    await asyncio.to_thread(run, path, "INSERT INTO kpi_records VALUES ('e', 'u', 't', '{}')")
    later = ("ALTER TABLE kpi_records ADD COLUMN more TEXT", "UPDATE kpi_records SET more = 'x'")
    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, later))
    await migrated(path)
    await migrated(path)
    rows = await asyncio.to_thread(run, path, "SELECT * FROM kpi_records")
    assert rows == [("e", "u", "t", "{}", "x")]
    assert await asyncio.to_thread(run, path, "PRAGMA user_version") == [(len(MIGRATIONS) + 1,)]


async def test_exchanges_of_the_schema_without_leases_can_be_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    await migrated_to(path, 2, monkeypatch)
    at, pending = "2026-01-01T00:00:00.000000Z", '{"requests":[]}'
    for status, checkpoint in (("running", "NULL"), ("awaiting_human", "x'01'")):
        await asyncio.to_thread(
            run,
            path,
            "INSERT INTO sessions (id, user_id, agent_id, title, search_title, state, created_at, updated_at,"
            f" next_rank, message_count, chat_profile, active_exchange_id) VALUES ('in {status}', 'ann', 'a', '', '',"
            f" 'active', '{at}', '{at}', 1, 1, '', '{status}')",
            "INSERT INTO exchanges (id, session_id, user_id, agent_id, status, request_id, first_rank, started_at,"
            f" last_seq, usage, pending, checkpoint) VALUES ('{status}', 'in {status}', 'ann', 'a', '{status}', 'r', 0,"
            f" '{at}', 0, '{{}}', '{pending}', {checkpoint})",
        )
    store = await SqliteStore.open(path, timeout_s=5)
    try:
        assert [record.id for record in await store.running_exchanges()] == ["running"]
        fence = await store.fence("in running")
        assert fence is not None and fence.owner is None
        await store.append(fence, [answer()], an_end(ExchangeStatus.INTERRUPTED))
        checkpoint = await store.checkpoint("awaiting_human")
        assert checkpoint is not None
        assert (checkpoint.state, checkpoint.record.kind) == (b"\x01", CheckpointKind.APPROVAL_PENDING)
        await store.decide(await stored(store, "awaiting_human"), [a_decision()], "new")
        fence = await store.fence("in awaiting_human")
        assert fence is not None and fence.owner == "new"
        await store.append(fence, [answer()], an_end())
    finally:
        await store.aclose()


async def test_rows_of_the_schema_without_private_columns_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    await migrated_to(path, 5, monkeypatch)
    at, metadata = "2026-01-01T00:00:00.000000Z", '{"extras":{"agent":"a","inner":1,"reached":[0]}}'
    exchange = (
        "INSERT INTO exchanges (id, session_id, user_id, agent_id, status, request_id, first_rank, started_at,"
        " last_seq, usage, runtime_context, checkpoint, checkpoint_record) VALUES"
    )
    record = f'{{"kind":"drained","at":"{at}","exchange_id":"resumable","request_id":"r"}}'
    await asyncio.to_thread(
        run,
        path,
        "INSERT INTO sessions (id, user_id, agent_id, title, search_title, state, created_at, updated_at, next_rank,"
        f" message_count, chat_profile) VALUES ('s', 'ann', 'a', '', '', 'active', '{at}', '{at}', 1, 1, '')",
        f"{exchange} ('ended', 's', 'ann', 'a', 'ok', 'r', 0, '{at}', 9, '{{}}', '{{\"page\":1}}', NULL, NULL)",
        f"{exchange} ('resumable', 's', 'ann', 'a', 'interrupted', 'r', 1, '{at}', 9, '{{}}', '{{\"page\":1}}', x'01',"
        f" '{record}')",
        "INSERT INTO messages (session_id, rank, exchange_id, timestamp, role, channel, search_text, parts, metadata)"
        f" VALUES ('s', 0, 'ended', '{at}', 'assistant', 'observation', '', '[]', '{metadata}')",
    )
    store = await SqliteStore.open(path, timeout_s=5)
    try:
        [message] = await store.messages_after("s", -1, 10)
        assert (message.inner, message.reached, message.shown().metadata.extras) == (1, [0], {"agent": "a"})
        assert (await stored(store, "ended")).runtime_context == {}
        assert (await stored(store, "resumable")).runtime_context == {"page": 1}
        assert await store.get_session("s") is not None
    finally:
        await store.aclose()


async def test_the_only_state_of_a_session_becomes_that_of_its_last_ended_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    await migrated_to(path, 6, monkeypatch)
    at = "2026-01-01T00:00:00.000000Z"
    for session_id, next_rank, active in (("idle", 4, None), ("busy", 5, "busy 2")):
        exchanges = [(f"{session_id} 1", 0, "ok"), (f"{session_id} 2", 4, "running")][: 1 if active is None else 2]
        await asyncio.to_thread(
            run,
            path,
            "INSERT INTO sessions (id, user_id, agent_id, title, search_title, state, created_at, updated_at,"
            f" next_rank, message_count, chat_profile, active_exchange_id) VALUES ('{session_id}', 'ann', 'a', '', '',"
            f" 'active', '{at}', '{at}', {next_rank}, {next_rank}, '', {'NULL' if active is None else repr(active)})",
            *(
                "INSERT INTO exchanges (id, session_id, user_id, agent_id, status, request_id, first_rank, started_at,"
                f" last_seq, usage) VALUES ('{exchange_id}', '{session_id}', 'ann', 'a', '{status}', 'r', {rank},"
                f" '{at}', 0, '{{}}')"
                for exchange_id, rank, status in exchanges
            ),
            f"INSERT INTO session_states VALUES ('{session_id}', x'01')",
        )
    store = await SqliteStore.open(path, timeout_s=5)
    try:
        for session_id in ("idle", "busy"):
            assert await store.session_states(session_id) == [KeptState(f"{session_id} 1", 4, b"\x01")]
            assert await store.session_state(session_id) == b"\x01"
            assert await store.session_state(session_id, 3) is None
    finally:
        await store.aclose()


async def test_a_migration_that_fails_leaves_the_version_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    await migrated(path)
    broken = ("CREATE TABLE half (x)", "ALTER TABLE missing ADD COLUMN x")
    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, broken))
    with pytest.raises(Exception, match="store is not available"):
        await migrated(path)
    assert await asyncio.to_thread(run, path, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    assert await asyncio.to_thread(run, path, "SELECT 1 FROM sqlite_schema WHERE name = 'half'") == []
