"""Chores in SQLite, whose only instance does them all."""

import sqlite3
from datetime import datetime
from typing import Any

from agentic_backend.protocol.messages import SessionState
from agentic_backend.stores.chores import Waiting
from agentic_backend.stores.records import SessionRecord
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.sqlite.operations import Part, lists, select, writes
from agentic_backend.stores.tables import SESSIONS, Table

# The index of what has not ended is found only if its condition is repeated.
_WAITING = """
    SELECT count(*), min(started_at) FROM exchanges INDEXED BY exchanges_due
    WHERE status IN ('running', 'awaiting_human') AND status = 'awaiting_human'
"""
_IDLE = "state = ? AND updated_at < ? AND active_exchange_id IS NULL ORDER BY updated_at LIMIT ?"

# Of a family, only its root has no `root_id`.
_IDLE_FAMILY = """
    root_id IS NULL AND updated_at < :before AND active_exchange_id IS NULL AND NOT EXISTS (
        SELECT 1 FROM sessions AS branch WHERE branch.root_id = sessions.id
            AND (branch.updated_at >= :before OR branch.active_exchange_id IS NOT NULL))
    ORDER BY updated_at LIMIT :limit
"""


class Chores(Part):
    async def claim_chore(self, name: str, owner: str, for_s: float) -> bool:
        return True

    @lists
    def waiting_exchanges(self, db: sqlite3.Connection) -> Waiting:
        count, since = db.execute(_WAITING).fetchone()
        return Waiting(count, None if since is None else datetime.fromisoformat(since))

    @lists
    def idle_sessions(
        self, db: sqlite3.Connection, state: SessionState, before: datetime, limit: int
    ) -> list[SessionRecord]:
        return select(db, SESSIONS, _IDLE, (state, rfc3339(before), limit))

    @lists
    def idle_families(self, db: sqlite3.Connection, before: datetime, limit: int) -> list[SessionRecord]:
        return select(db, SESSIONS, _IDLE_FAMILY, {"before": rfc3339(before), "limit": limit})

    @writes
    def delete_old(self, db: sqlite3.Connection, table: Table[Any], before: datetime, limit: int) -> int:
        [key], time = table.key, table.time
        old = f"SELECT {key} FROM {table.name} WHERE {time} < ? ORDER BY {time} LIMIT ?"
        return db.execute(f"DELETE FROM {table.name} WHERE {key} IN ({old})", (rfc3339(before), limit)).rowcount
