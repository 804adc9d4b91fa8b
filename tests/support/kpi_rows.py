"""Many KPI records, put straight into a SQLite file."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from agentic_backend.stores.rows import kpi_row
from tests.stores.samples import EPOCH, a_kpi


def fill(path: Path, user_id: str, count: int) -> None:
    """`count` records of the user's, one of each second from EPOCH on, with other figures each."""
    rows = (
        tuple(kpi_row(a_kpi(user_id, started_at=EPOCH + timedelta(seconds=number), latency_ms=number)).values())
        for number in range(count)
    )
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany("INSERT INTO kpi_records (exchange_id, user_id, started_at, record) VALUES (?, ?, ?, ?)", rows)
