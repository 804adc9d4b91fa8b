"""A kind of row is its record and its Table: it is kept, read back, deleted with its session and copied, untold."""

import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo.documents import indexes, record_in
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.stores.sqlite.operation_base import insert
from agentic_backend.stores.tables import EXCHANGES, KPI_RECORDS, MESSAGES, SESSIONS, TABLES, Table
from agentic_backend.stores.transfer import Counts, transfer
from tests.stores.samples import EPOCH, a_kpi, a_session, an_exchange, new_id


@dataclass(frozen=True, slots=True)
class Note:
    id: str
    session_id: str
    at: datetime
    status: ExchangeStatus
    author: str | None = None
    weight: float | None = None
    is_public: bool = False
    tags: list[str] = field(default_factory=list)
    more: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Preference:
    user_id: str
    theme: str


NOTES = Table("notes", Note, of_session=True, indexes={"by_author": ("author", "-at")})
PREFERENCES = Table("preferences", Preference, of_session=False, key=("user_id",))


@pytest.fixture(autouse=True)
def more_tables() -> Iterator[None]:
    TABLES.extend([NOTES, PREFERENCES])
    yield
    TABLES.remove(NOTES)
    TABLES.remove(PREFERENCES)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "store.db", timeout_s=10)
    yield store
    await store.aclose()


def a_note(session_id: str, **fields: Any) -> Note:
    return Note(**({"id": new_id(), "session_id": session_id, "at": EPOCH, "status": ExchangeStatus.OK} | fields))


def some_notes(session_id: str) -> list[Note]:
    full = {
        "author": "ann",
        "weight": 0.5,
        "is_public": True,
        "tags": ["größer"],
        "more": {"a.b": [None, {"$c": 2**80}]},
    }
    return sorted([a_note(session_id), a_note(session_id, **full)], key=lambda note: note.id)


async def keep(store: SqliteStore, table: Table[Any], *records: Any) -> None:
    await store.writer.write("keep", lambda db: insert(db, table, records))


async def fill(store: SqliteStore) -> tuple[list[str], list[Note]]:
    """Two sessions, each with two notes; and a preference."""
    sessions = [a_session(), a_session()]
    notes = [note for session in sessions for note in some_notes(session.id)]
    for session in sessions:
        await store.create_session(session)
    await keep(store, NOTES, *notes)
    await keep(store, PREFERENCES, Preference("ann", "dark"))
    return [session.id for session in sessions], notes


def test_a_row_is_the_record_whatever_it_holds() -> None:
    session = a_session(ended_at=EPOCH)
    exchange = an_exchange(session, runtime_context={"a": None}, deadline=EPOCH)
    kpi = a_kpi()
    assert SESSIONS.record_of(SESSIONS.row(session)) == session
    assert EXCHANGES.record_of(EXCHANGES.row(exchange)) == exchange
    assert KPI_RECORDS.record_of(KPI_RECORDS.row(kpi)) == kpi
    for note in some_notes("s"):
        assert NOTES.record_of(NOTES.row(note)) == note
    assert MESSAGES.key == ("session_id", "rank")


def test_a_row_of_an_older_schema_has_the_defaults() -> None:
    row = NOTES.row(a_note("s"))
    older = {name: row[name] for name in ("id", "session_id", "at", "status")}
    assert NOTES.record_of(older) == NOTES.record_of(row)


async def test_a_file_gets_what_the_tables_declare(store: SqliteStore) -> None:
    _, notes = await fill(store)
    rows = await store.reader.read("rows", lambda db: [tuple(row) for row in db.execute("SELECT count(*) FROM notes")])
    assert rows == [(4,)]
    assert await store.page(NOTES, None, 10, notes[0].session_id) == notes[:2]
    names = await store.reader.read(
        "indexes", lambda db: {row["name"] for row in db.execute("PRAGMA index_list(notes)")}
    )
    assert {"notes_by_author", "notes_by_session"} <= names
    assert ("notes", [("session_id", 1), ("_id", 1)], False) in list(indexes())


async def test_a_column_that_came_later_is_added(store: SqliteStore, tmp_path: Path) -> None:
    _, notes = await fill(store)

    def forget(db: sqlite3.Connection) -> None:
        db.execute("ALTER TABLE notes DROP COLUMN weight")

    await store.writer.write("forget", forget)
    newer = await SqliteStore.open(tmp_path / "store.db", timeout_s=10)
    try:
        assert [note.id for note in await newer.page(NOTES, None, 10, notes[0].session_id)] == [n.id for n in notes[:2]]
        await keep(newer, NOTES, a_note(notes[0].session_id, weight=1.5))
    finally:
        await newer.aclose()


async def test_rows_go_with_their_session(store: SqliteStore) -> None:
    (first, second), notes = await fill(store)
    await store.delete_session(first)
    assert await store.page(NOTES, None, 10, first) == []
    assert await store.page(NOTES, None, 10, second) == notes[2:]
    assert await store.page(PREFERENCES, None, 10) == [Preference("ann", "dark")]


async def test_rows_are_copied_and_go_with_their_session_there_too(store: SqliteStore, target: MongoStore) -> None:
    (first, second), notes = await fill(store)
    for _ in range(2):
        done = await transfer(store, target, lambda there, total: None)
        assert done.is_whole and done.found == Counts(sessions=2, notes=4, preferences=1) == await store.total()
    database = target.driver.database
    documents = await database["notes"].find({"session_id": second}).sort("_id", 1).to_list(None)
    assert [record_in(NOTES, found) for found in documents] == notes[2:]
    await target.delete_session(first)
    assert await database["notes"].count_documents({}) == 2
    assert await database["preferences"].find({}).to_list(None) == [{"_id": "ann", "theme": "dark"}]


def test_a_kpi_record_of_an_older_server_lacks_what_that_did_not_measure() -> None:
    kpi = a_kpi(restore="warm", instance="server-1")
    row = KPI_RECORDS.row(kpi)
    older = {name: value for name, value in json.loads(row["record"]).items() if name not in ("restore", "instance")}
    found = KPI_RECORDS.record_of({**row, "record": json.dumps(older)})
    assert found == kpi.model_copy(update={"restore": None, "instance": None})
