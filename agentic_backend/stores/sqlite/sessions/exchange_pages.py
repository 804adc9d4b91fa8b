"""Pages of exchanges in SQLite."""

import sqlite3
from collections.abc import Collection
from dataclasses import asdict

from agentic_backend.stores.lineage import spans_from
from agentic_backend.stores.protocol.exchange_pages import ACTIVITIES_PER_EXCHANGE, LEFT_OUT, ExchangePage
from agentic_backend.stores.protocol.trail import ActivityRecord
from agentic_backend.stores.sqlite.operation_base import Part, columns, lists, placeholders
from agentic_backend.stores.sqlite.sessions.sessions import session_with
from agentic_backend.stores.tables import ACTIVITIES, EXCHANGES

_FROM = f"""
    SELECT {", ".join(name for name in EXCHANGES.names if name not in LEFT_OUT)} FROM exchanges
    WHERE session_id = :session_id AND first_rank < :below_rank AND first_rank >= coalesce((
        SELECT first_rank FROM exchanges WHERE session_id = :session_id AND first_rank <= :from_rank
        ORDER BY first_rank DESC LIMIT 1), :from_rank)
    ORDER BY first_rank LIMIT :limit
"""

_ACTIVITIES = f"""
    SELECT {columns(ACTIVITIES)}, row_number() OVER (PARTITION BY exchange_id ORDER BY seq) AS number
    FROM activities WHERE exchange_id IN (%s) ORDER BY exchange_id, seq
"""


class ExchangePages(Part):
    @lists
    def exchanges_from(
        self, db: sqlite3.Connection, session_id: str, from_rank: int, limit: int, max_bytes: int
    ) -> ExchangePage:
        page = ExchangePage()
        session = session_with(db, session_id)
        for span in spans_from(session, from_rank) if session is not None else ():
            # One exchange more than the page holds shows where the next one begins.
            for row in db.execute(_FROM, {**asdict(span), "limit": limit + 1}):
                if not page.takes(row, limit, max_bytes):
                    return page
        return page

    @lists
    def activities_of(self, db: sqlite3.Connection, exchange_ids: Collection[str]) -> list[ActivityRecord]:
        rows = db.execute(_ACTIVITIES % placeholders(exchange_ids), tuple(exchange_ids))
        return [ACTIVITIES.record_of(row) for row in rows if row["number"] <= ACTIVITIES_PER_EXCHANGE]
