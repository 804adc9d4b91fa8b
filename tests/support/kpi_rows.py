"""Inserts many KPI records directly into a SQLite file."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from agentic_backend.stores.tables import KPI_RECORDS
from tests.stores.samples import EPOCH, a_kpi


def fill(path: Path, user_id: str, count: int) -> None:
    """Insert `count` records of the user, one for each second from EPOCH on, with different figures."""
    rows = (
        tuple(KPI_RECORDS.row(a_kpi(user_id, started_at=EPOCH + timedelta(seconds=number), latency_ms=number)).values())
        for number in range(count)
    )
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany("INSERT INTO kpi_records (exchange_id, user_id, started_at, record) VALUES (?, ?, ?, ?)", rows)
