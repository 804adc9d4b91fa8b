"""Chores in SQLite: a server's only process does them all, and of several workers each claims its own."""

import sqlite3
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from agentic_backend.protocol.messages import SessionState
from agentic_backend.stores.protocol.chores import Waiting
from agentic_backend.stores.records import SessionRecord
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.sqlite.operation_base import Part, lists, select, writes
from agentic_backend.stores.sqlite.sessions.text_index import BLOCK_MESSAGES, IDLE, due_sessions, index_sessions
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


_CLAIM = """
    INSERT INTO chores (name, owner, until) VALUES (:name, :owner, :until)
    ON CONFLICT (name) DO UPDATE SET owner = :owner, until = :until WHERE owner = :owner OR until < :now
"""


class Chores(Part):
    shared_file: Path | None
    """None if one process uses the file."""

    async def claim_chore(self, name: str, owner: str, for_s: float) -> bool:
        return self.shared_file is None or await self._claim_chore(name, owner, for_s)

    @writes
    def _claim_chore(self, db: sqlite3.Connection, name: str, owner: str, for_s: float) -> bool:
        now = self.now()
        claim = {"name": name, "owner": owner, "until": rfc3339(now + timedelta(seconds=for_s)), "now": rfc3339(now)}
        return db.execute(_CLAIM, claim).rowcount > 0

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

    async def index_texts(self, limit: int) -> int:
        idle_since = rfc3339(self.now() - IDLE)
        for written in range(limit):
            due = await self._texts_to_index(idle_since)
            if not due:
                return written
            await self.writer.write("index_texts", partial(index_sessions, session_ids=due))
        return limit

    @lists
    def _texts_to_index(self, db: sqlite3.Connection, idle_since: str) -> list[str]:
        return due_sessions(db, idle_since, BLOCK_MESSAGES)
