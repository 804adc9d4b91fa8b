"""SQLite as the source of a transfer, which reads every table page by page, and as its target (see transfer)."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from agentic_backend.stores.base import Checkpoint, KeptState
from agentic_backend.stores.records import SessionRecord
from agentic_backend.stores.sqlite.attachment_files import AttachmentFiles
from agentic_backend.stores.sqlite.operation_base import Part, count, insert, lists, placeholders, put, select, writes
from agentic_backend.stores.sqlite.sessions.exchanges import keep_checkpoint
from agentic_backend.stores.sqlite.sessions.text_index import forget_session
from agentic_backend.stores.tables import SESSIONS, TABLES, Table, session_tables
from agentic_backend.stores.transfer import Counts, Place

R = TypeVar("R")


class Copies(Part):
    files: AttachmentFiles

    @lists
    def page(
        self,
        db: sqlite3.Connection,
        table: Table[R],
        after: Place | None,
        limit: int,
        session_id: str | None = None,
        user_id: str | None = None,
    ) -> list[R]:
        conditions = {"session_id = ?": session_id, f"{table.user} = ?": user_id, f"{table.order} > ?": after}
        given = {condition: value for condition, value in conditions.items() if value is not None}
        where = " AND ".join(given) or "true"
        return select(db, table, f"{where} ORDER BY {table.order} LIMIT ?", (*given.values(), limit))

    async def complete_rows(self, session_ids: Sequence[str]) -> None:
        # Its transactions leave nothing half done.
        pass

    @lists
    def session_states(self, db: sqlite3.Connection, session_id: str) -> list[KeptState]:
        rows = db.execute("SELECT * FROM session_states WHERE session_id = ? ORDER BY rank", (session_id,))
        return [KeptState(row["exchange_id"], row["rank"], row["state"]) for row in rows]

    @lists
    def count_rows(self, db: sqlite3.Connection, session_ids: Sequence[str]) -> Counts:
        among = f"IN ({placeholders(session_ids)})"
        counts = {SESSIONS.name: count(db, f"sessions WHERE id {among}", session_ids)}
        for table in session_tables():
            counts[table.name] = count(db, f"{table.name} WHERE session_id {among}", session_ids)
        return Counts(counts)

    @lists
    def total(self, db: sqlite3.Connection) -> Counts:
        return Counts({table.name: count(db, table.name) for table in TABLES})

    async def begin_copies(self) -> None:
        # A session is written after its rows. Not as a transaction, in which this would have no effect.
        await self.writer.read("begin_copies", lambda db: db.execute("PRAGMA foreign_keys = OFF"))

    @writes
    def clear_sessions(self, db: sqlite3.Connection, session_ids: Sequence[str]) -> None:
        for session_id in session_ids:
            forget_session(db, session_id)
        among = placeholders(session_ids)
        db.execute(f"DELETE FROM sessions WHERE id IN ({among})", session_ids)
        for table in ("session_states", *(table.name for table in session_tables())):
            db.execute(f"DELETE FROM {table} WHERE session_id IN ({among})", session_ids)

    @writes
    def copy(self, db: sqlite3.Connection, table: Table[R], records: Sequence[R]) -> None:
        if table.of_session:
            insert(db, table, records)
        else:
            insert(db, table, [each for each in records if not _is_newer(db, table, each)], replace=True)

    @writes
    def copy_checkpoint(self, db: sqlite3.Connection, exchange_id: str, checkpoint: Checkpoint) -> None:
        keep_checkpoint(db, exchange_id, checkpoint)

    async def put_content(self, attachment_id: str, name: str, content: AsyncIterator[bytes]) -> None:
        await self.files.write(attachment_id, content)

    @writes
    def copy_session(self, db: sqlite3.Connection, session: SessionRecord, states: Sequence[KeptState]) -> None:
        rows = [{"session_id": session.id, "rank": each.rank, "exchange_id": each.exchange_id} for each in states]
        put(db, "session_states", [row | {"state": each.state} for row, each in zip(rows, states, strict=True)])
        insert(db, SESSIONS, [session])

    @lists
    def count_among(self, db: sqlite3.Connection, table: Table[R], records: Sequence[R]) -> int:
        [key] = table.key
        keys = [getattr(record, key) for record in records]
        return count(db, f"{table.name} WHERE {key} IN ({placeholders(keys)})", keys)


def _is_newer(db: sqlite3.Connection, table: Table[R], record: R) -> bool:
    """Whether a later version of the record is there."""
    row = table.row(record)
    if "updated_at" not in row:
        return False
    [key] = table.key
    return bool(count(db, f"{table.name} WHERE {key} = ? AND updated_at > ?", [row[key], row["updated_at"]]))
