"""Inserts many KPI records directly into a SQLite file."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from agentic_backend.stores.tables import KPI_RECORDS
from tests.stores.samples import EPOCH, a_kpi, new_id

_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


def fill(path: Path, user_id: str, count: int) -> None:
    """Insert `count` records of the user, one for each second from EPOCH on, with different figures."""
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany(
            "INSERT INTO kpi_records (exchange_id, user_id, started_at, record) VALUES (?, ?, ?, ?)",
            _rows(user_id, count),
        )


def _rows(user_id: str, count: int) -> Iterator[tuple[str, str, str, str]]:
    """Made of one row: to make so many records takes long."""
    exchange_id, _, begun, record = KPI_RECORDS.row(a_kpi(user_id, started_at=EPOCH, latency_ms=0)).values()
    for number in range(count):
        own_id, at = new_id(), f"{EPOCH + timedelta(seconds=number):{_TIME}}"
        own = record.replace(exchange_id, own_id).replace(begun, at)
        yield own_id, user_id, at, own.replace('"latency_ms":0', f'"latency_ms":{number}')
