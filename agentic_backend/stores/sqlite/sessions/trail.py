"""The trail in SQLite."""

import sqlite3
from collections.abc import Sequence
from itertools import groupby

from agentic_backend.stores.protocol.trail import R, TrailPage, TrailQuery, TrailRecord
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.sqlite.operation_base import Part, insert, lists, select, writes
from agentic_backend.stores.tables import TRAIL


def put_trail(db: sqlite3.Connection, records: Sequence[TrailRecord]) -> None:
    """Store the records, whose sessions exist."""
    for kind, own in groupby(sorted(records, key=lambda one: type(one).__name__), key=type):
        insert(db, TRAIL[kind], list(own), replace=True)


class Trail(Part):
    @writes
    def add_trail(self, db: sqlite3.Connection, records: Sequence[TrailRecord]) -> None:
        put_trail(db, [record for record in records if _has_its_session(db, record)])

    @lists
    def trail(self, db: sqlite3.Connection, query: TrailQuery[R]) -> TrailPage[R]:
        table = TRAIL[query.record]
        names = {column.field: column.name for column in table.columns}
        given: dict[str, object] = {f"{names[field]} = ?": value for field, value in query.where.items()}
        if query.since is not None:
            given["at >= ?"] = rfc3339(query.since)
        if query.until is not None:
            given["at < ?"] = rfc3339(query.until)
        values = list(given.values())
        if query.place is not None:
            given["(at, id) < (?, ?)"] = None
            values += [rfc3339(query.place[0]), query.place[1]]
        conditions = " AND ".join(given) or "true"
        # One record more than the page holds shows whether another page follows.
        found = select(db, table, f"{conditions} ORDER BY at DESC, id DESC LIMIT ?", (*values, query.limit + 1))
        return TrailPage.of(found, query.limit)

    @writes
    def remove_trail(self, db: sqlite3.Connection, record: type[TrailRecord], record_id: str) -> None:
        db.execute(f"DELETE FROM {TRAIL[record].name} WHERE id = ?", (record_id,))


def _has_its_session(db: sqlite3.Connection, record: TrailRecord) -> bool:
    if not TRAIL[type(record)].of_session:
        return True
    session_id = getattr(record, "session_id", None)
    return db.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone() is not None
