"""Reads SQLite for a transfer: every table, page by page (see transfer)."""

import sqlite3
from collections.abc import Sequence
from typing import TypeVar

from agentic_backend.stores.base import KeptState
from agentic_backend.stores.sqlite.operations import Part, count, lists, placeholders, select
from agentic_backend.stores.tables import SESSIONS, TABLES, Table, session_tables
from agentic_backend.stores.transfer import Counts, Place

R = TypeVar("R")


class Copies(Part):
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
