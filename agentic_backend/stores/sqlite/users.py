"""All of a user's rows in SQLite."""

import asyncio
import sqlite3
import time
from datetime import datetime
from typing import Any

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.protocol.user_rows import HIDDEN, HIDDEN_END, LEFT_OF_USAGE, midnight_of
from agentic_backend.stores.records import JournalMark, UserDeletion
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.sqlite.operation_base import Part, insert, lists, reads, select, writes
from agentic_backend.stores.sqlite.sessions.text_index import merge_index
from agentic_backend.stores.tables import DELETIONS, JOURNAL_MARKS, Table, written_at

# How long readers may keep the write-ahead log from being emptied, and when that is tried again, in seconds.
_READERS_S, _AGAIN_S = 2.0, 0.1
# What is left then is merged by the next erasure.
_MERGE_S = 20.0


class Users(Part):
    @lists
    def state_after(self, db: sqlite3.Connection, session_id: str, rank: int) -> tuple[int, bytes] | None:
        above = "SELECT rank, state FROM session_states WHERE session_id = ? AND rank > ? ORDER BY rank LIMIT 1"
        row = db.execute(above, (session_id, rank)).fetchone()
        return None if row is None else (row["rank"], row["state"])

    @lists
    def sessions_to_delete(self, db: sqlite3.Connection, user_id: str, limit: int) -> list[str]:
        return [row["id"] for row in db.execute("SELECT id FROM sessions WHERE user_id = ? LIMIT ?", (user_id, limit))]

    @writes
    def delete_user_rows(
        self, db: sqlite3.Connection, table: Table[Any], user_id: str, limit: int, up_to: datetime | None = None
    ) -> int:
        if table.of_session:
            # Foreign keys have deleted them.
            return 0
        [key] = table.key
        old, times = ("", []) if up_to is None else (f"AND {written_at(table)} <= ?", [rfc3339(up_to)])
        own = f"SELECT {key} FROM {table.name} WHERE {table.user} = ? {old} LIMIT ?"
        return db.execute(f"DELETE FROM {table.name} WHERE {key} IN ({own})", (user_id, *times, limit)).rowcount

    @writes
    def hide_usage(
        self,
        db: sqlite3.Connection,
        user_id: str,
        hidden: str,
        since: datetime,
        limit: int,
        up_to: datetime | None = None,
    ) -> int:
        old, times = ("", []) if up_to is None else ("AND at <= ?", [rfc3339(up_to)])
        own = f"SELECT id, day FROM usage WHERE user_id = ? AND at >= ? {old} LIMIT ?"
        rows = db.execute(own, (user_id, rfc3339(since), *times, limit)).fetchall()
        left = ", ".join(f"{column} = :{column}" for column in LEFT_OF_USAGE)
        db.executemany(
            f"UPDATE usage SET user_id = :hidden, at = :at, {left} WHERE id = :id",
            [{**LEFT_OF_USAGE, "hidden": hidden, "at": midnight_of(row["day"]), "id": row["id"]} for row in rows],
        )
        return len(rows)

    @writes
    def delete_hidden_usage(self, db: sqlite3.Connection, before: datetime, limit: int) -> int:
        old = "SELECT id FROM usage WHERE user_id >= ? AND user_id < ? AND at < ? LIMIT ?"
        given = (HIDDEN, HIDDEN_END, rfc3339(before), limit)
        return db.execute(f"DELETE FROM usage WHERE id IN ({old})", given).rowcount

    @writes
    def keep_deletion(self, db: sqlite3.Connection, deletion: UserDeletion) -> None:
        insert(db, DELETIONS, [deletion], replace=True)

    @reads
    def deletions(self, db: sqlite3.Connection, limit: int = 1_000) -> list[UserDeletion]:
        return select(db, DELETIONS, "true ORDER BY user_id LIMIT ?", (limit,))

    @writes
    def end_deletion(self, db: sqlite3.Connection, deletion: UserDeletion) -> None:
        as_read = (deletion.user_id, rfc3339(deletion.until))
        db.execute("DELETE FROM user_deletions WHERE user_id = ? AND until = ?", as_read)

    async def prove_deletion(self) -> None:
        pass

    @reads
    def journal_marks(self, db: sqlite3.Connection) -> list[JournalMark]:
        return select(db, JOURNAL_MARKS, "true")

    @writes
    def keep_journal_mark(self, db: sqlite3.Connection, mark: JournalMark, oldest: datetime) -> None:
        db.execute(f"DELETE FROM {JOURNAL_MARKS.name} WHERE until < ?", (rfc3339(oldest),))
        insert(db, JOURNAL_MARKS, [mark], replace=True)

    async def erase(self) -> None:
        is_merged = await self._merge_index()
        # Not as a transaction. A deletion leaves texts in free space and in the write-ahead log; `secure_delete` would
        # leave fragments in pages that were split.
        await self.writer.read("erase", _vacuum)
        if not is_merged:
            raise StoreUnavailable

    async def _merge_index(self) -> bool:
        """Whether nothing of what was deleted is left in the index of texts; False if that takes too long."""
        clock = asyncio.get_running_loop().time
        ends = clock() + _MERGE_S
        while clock() < ends:
            if not await self.writer.write("erase", merge_index):
                return True
        return False


def _vacuum(db: sqlite3.Connection) -> None:
    db.execute("VACUUM")
    gives_up_at = time.monotonic() + _READERS_S
    # The first column says whether a reader was in the way.
    while db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        if time.monotonic() > gives_up_at:
            raise sqlite3.OperationalError("readers keep the write-ahead log")
        time.sleep(_AGAIN_S)
