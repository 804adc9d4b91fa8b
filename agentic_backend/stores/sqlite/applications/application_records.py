"""Records of applications in SQLite."""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from agentic_backend.errors import LimitReached, RecordConflict, SessionNotFound
from agentic_backend.stores.protocol.application_records import (
    SEARCHED,
    ApplicationRecord,
    RecordQuery,
    RecordWrite,
    Searched,
    SearchedRecord,
    behind,
)
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.sqlite.migrations import make_lazy_indexes
from agentic_backend.stores.sqlite.operation_base import Part, count, lists, placeholders, reads, select, writes
from agentic_backend.stores.tables import RECORDS_TABLES, records_table, table_of

_OUTDATED = """kind = ? AND version < ? OR kind = ? AND version = ? AND layout != ? LIMIT ?"""
_OWN_SESSION = "SELECT 1 FROM sessions WHERE id = ? AND user_id = ?"


class ApplicationRecords(Part):
    @writes
    def open_application_records(self, db: sqlite3.Connection) -> None:
        make_lazy_indexes(db)

    @reads
    def get_application_records(
        self, db: sqlite3.Connection, ids: Collection[str], *, of_session: bool
    ) -> list[ApplicationRecord]:
        return _records(db, f"id IN ({placeholders(ids)})", list(ids), of_session=of_session)

    @lists
    def find_application_records(self, db: sqlite3.Connection, query: RecordQuery) -> list[ApplicationRecord]:
        order, direction = query.order, "DESC" if query.descending else "ASC"
        condition = f"{order} >= :first AND {order} < :behind"
        given = {"first": query.first, "behind": query.behind, "limit": query.limit}
        if query.after is not None:
            condition += f" AND {order} {'<' if query.descending else '>'} :after"
            given["after"] = query.after
        ordered = f"{condition} ORDER BY {order} {direction} LIMIT :limit"
        return _records(db, ordered, given, of_session=query.of_session)

    @lists
    def searched_places(
        self, db: sqlite3.Connection, after: str, behind: str, limit: int, *, of_session: bool
    ) -> list[str]:
        table = records_table(of_session=of_session).name
        # The index alone has all that is read.
        places = f"SELECT searched FROM {table} WHERE searched > ? AND searched < ? ORDER BY searched LIMIT ?"
        return [place for (place,) in db.execute(places, (after, behind, limit))]

    @lists
    def searched_records(
        self, db: sqlite3.Connection, column: Searched, places: Collection[str], *, of_session: bool
    ) -> list[SearchedRecord]:
        table = records_table(of_session=of_session).name
        found = f"SELECT key, searched, {column} FROM {table} WHERE searched IN ({placeholders(places)})"
        return [SearchedRecord(*row) for row in db.execute(found, list(places))]

    @writes
    def write_application_records(self, db: sqlite3.Connection, writes: Sequence[RecordWrite]) -> None:
        for session_id, user_id in {(each.record.session_id, each.record.user_id) for each in writes}:
            if session_id is not None and db.execute(_OWN_SESSION, (session_id, user_id)).fetchone() is None:
                raise SessionNotFound
        # What is removed still has its unique values while others are inserted, as in databases without transactions.
        for write in sorted(writes, key=lambda each: each.is_removal):
            if not _written(db, write, alone=len(writes) == 1):
                raise RecordConflict
        limits = {(table_of(each.record).name, each.among, each.most) for each in writes if each.is_insertion}
        for table, among, most in limits:
            kept = f"(SELECT 1 FROM {table} WHERE id >= ? AND id < ? LIMIT ?)"
            if count(db, kept, (among, behind(among), most + 1)) > most:
                raise LimitReached(f"No more than {most} of these can be kept.")

    @lists
    def outdated_application_records(
        self, db: sqlite3.Connection, kind: str, version: int, layout: str, limit: int, *, of_session: bool
    ) -> list[ApplicationRecord]:
        given = (kind, version, kind, version, layout, limit)
        return _records(db, _OUTDATED, given, of_session=of_session)

    @writes
    def delete_application_records(
        self, db: sqlite3.Connection, kind: str, before: datetime, limit: int, *, of_session: bool
    ) -> int:
        table = records_table(of_session=of_session).name
        old = f"SELECT id FROM {table} WHERE kind = ? AND updated_at < ? LIMIT ?"
        return db.execute(f"DELETE FROM {table} WHERE id IN ({old})", (kind, rfc3339(before), limit)).rowcount

    @lists
    def application_record_kinds(self, db: sqlite3.Connection) -> Mapping[str, int]:
        return kinds_of_records(db)


def kinds_of_records(db: sqlite3.Connection) -> Mapping[str, int]:
    """The kinds of which there are records, with their newest version."""
    newest: dict[str, int] = {}
    for table in RECORDS_TABLES:
        # From one kind to the next, by the index.
        next_kind = f"SELECT kind, version FROM {table.name} WHERE kind > ? ORDER BY kind, version DESC LIMIT 1"
        kind = ""
        while (found := db.execute(next_kind, (kind,)).fetchone()) is not None:
            kind, version = found
            newest[kind] = max(version, newest.get(kind, 0))
    return newest


def _records(db: sqlite3.Connection, condition: str, given: Any, *, of_session: bool) -> list[ApplicationRecord]:
    return select(db, records_table(of_session=of_session), condition, given, without=SEARCHED)


def _written(db: sqlite3.Connection, write: RecordWrite, *, alone: bool) -> bool:
    table = table_of(write.record)
    row = table.row(write.record)
    if write.is_insertion:
        values = ", ".join(f":{name}" for name in row)
        inserted = f"INSERT OR IGNORE INTO {table.name} ({', '.join(row)}) VALUES ({values})"
        return db.execute(inserted, row).rowcount == 1
    expected = "id = :id AND revision = :expected AND created_at = :created_at"
    if not alone:
        expected += " AND unique_1 = :unique_1 AND unique_2 = :unique_2"
    given = {**row, "expected": write.expected}
    if write.is_removal:
        return db.execute(f"DELETE FROM {table.name} WHERE {expected}", given).rowcount == 1
    values = ", ".join(f"{name} = :{name}" for name in write.changes(row))
    return db.execute(f"UPDATE OR IGNORE {table.name} SET {values} WHERE {expected}", given).rowcount == 1
