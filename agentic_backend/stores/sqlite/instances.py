"""The instances on one SQLite file, the workers of one server: a row for each, with a counter (see heartbeat).

A server that runs as one process has no rows. Rows of workers that have died with their server are removed before the
next one starts, so an owner without a row is dead.
"""

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

from agentic_backend.stores.heartbeat import LOOP_PATIENCE_S, beating
from agentic_backend.stores.sqlite.operation_base import Part, reads, writes

# Short, so that beats don't come late; and a process that ends has little time.
_LONGEST_BEAT_S, _REMOVE_S = 2.0, 0.4

SHARED_TABLES = (
    "CREATE TABLE IF NOT EXISTS instances (id TEXT PRIMARY KEY, beat INTEGER NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS chores (name TEXT PRIMARY KEY, owner TEXT NOT NULL, until TEXT NOT NULL) STRICT",
)
"""What only several processes on one file need."""
# The row is missing at first, and if others have removed it.
_ONE_MORE = "INSERT INTO instances (id, beat) VALUES (?, 1) ON CONFLICT (id) DO UPDATE SET beat = beat + 1"


def create_shared_tables(db: sqlite3.Connection) -> None:
    for statement in SHARED_TABLES:
        db.execute(statement)


def forget_instances(file: Path, timeout_s: float) -> None:
    """Remove the rows of all instances, and their claims; for who uses the file alone. Blocks; raises sqlite3.Error."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None, timeout=timeout_s)) as db:
        # Before the first worker opens it: several that change the mode at once would refuse each other.
        db.execute("PRAGMA journal_mode = WAL")
        create_shared_tables(db)
        db.execute("DELETE FROM instances")
        db.execute("DELETE FROM chores")


class Instances(Part):
    shared_file: Path | None
    """The file, if several processes use it; None if one does, which needs no sign of life."""

    @contextlib.asynccontextmanager
    async def heartbeat(
        self, instance_id: str, every_s: float, *, loop_patience_s: float = LOOP_PATIENCE_S
    ) -> AsyncIterator[None]:
        """See `Store`; the counter moves while the event loop is blocked for less than `loop_patience_s`."""
        if self.shared_file is None:
            yield
            return
        await self._beat(instance_id)
        async with beating(_Beats(self.shared_file, instance_id), instance_id, every_s, loop_patience_s):
            yield

    @writes
    def _beat(self, db: sqlite3.Connection, instance_id: str) -> None:
        db.execute(_ONE_MORE, (instance_id,))

    async def beats(self) -> dict[str, int]:
        return {} if self.shared_file is None else await self._beats()

    @reads
    def _beats(self, db: sqlite3.Connection) -> dict[str, int]:
        return {row["id"]: row["beat"] for row in db.execute("SELECT id, beat FROM instances")}

    @writes
    def forget_instance(self, db: sqlite3.Connection, instance_id: str, last_beat: int) -> None:
        db.execute("DELETE FROM instances WHERE id = ? AND beat = ?", (instance_id, last_beat))

    async def compare_clocks(self) -> float | None:
        """None: all instances are on one machine."""
        return None


class _Beats:
    """With a connection of its own, which blocks the heartbeat's thread only."""

    def __init__(self, file: Path, instance_id: str) -> None:
        self._file = file
        self._instance_id = instance_id
        self._db: sqlite3.Connection | None = None

    def beat(self) -> None:
        self._connection().execute(_ONE_MORE, (self._instance_id,))

    def leave(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            db = self._connection()
            db.execute(f"PRAGMA busy_timeout = {int(_REMOVE_S * 1000)}")
            db.execute("DELETE FROM instances WHERE id = ?", (self._instance_id,))
        if self._db is not None:
            self._db.close()

    def _connection(self) -> sqlite3.Connection:
        # Made in the thread that uses it.
        if self._db is None:
            self._db = sqlite3.connect(self._file, isolation_level=None, timeout=_LONGEST_BEAT_S)
            self._db.execute("PRAGMA synchronous = NORMAL")
        return self._db
