"""Reads messages from SQLite; they are written with their exchange."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any

from agentic_backend.stores.lineage import spans_of
from agentic_backend.stores.protocol.message_search import MessageSearch
from agentic_backend.stores.records import MessageRecord
from agentic_backend.stores.rows import row_bytes, with_first
from agentic_backend.stores.sqlite.operation_base import Part, columns, reads
from agentic_backend.stores.sqlite.sessions.sessions import session_with
from agentic_backend.stores.sqlite.sessions.text_search import TextSearch
from agentic_backend.stores.tables import MESSAGES

_OF_EXCHANGE = f"SELECT {columns(MESSAGES)} FROM messages WHERE exchange_id = ? ORDER BY rank"

_BETWEEN = f"SELECT {columns(MESSAGES)} FROM messages WHERE session_id = ? AND rank >= ? AND rank < ? ORDER BY rank"

_LAST_ENDED = """
    SELECT id FROM exchanges WHERE session_id = ? AND status NOT IN ('running', 'awaiting_human')
        AND first_rank >= ? AND first_rank < ?
    ORDER BY first_rank DESC
"""

_OF_OTHERS = """user_id = :user_id AND coalesce(root_id, id) IS NOT (
    SELECT coalesce(own.root_id, own.id) FROM sessions AS own WHERE own.id = :not_session)"""


class Messages(Part):
    @reads
    def exchange_messages(
        self, db: sqlite3.Connection, exchange_id: str, max_bytes: int | None = None
    ) -> list[MessageRecord]:
        if max_bytes is None:
            return _messages(db.execute(_OF_EXCHANGE, (exchange_id,)))
        first = db.execute(f"{_OF_EXCHANGE} LIMIT 1", (exchange_id,)).fetchall()
        last = _fitting(db.execute(f"{_OF_EXCHANGE} DESC", (exchange_id,)), max_bytes)[::-1]
        return _messages(with_first(first, last))

    @reads
    def messages_after(
        self, db: sqlite3.Connection, session_id: str, after_rank: int, limit: int, max_bytes: int | None = None
    ) -> list[MessageRecord]:
        return _messages(_fitting(islice(_rows_from(db, session_id, after_rank + 1), max(0, limit)), max_bytes))

    @reads
    def last_exchanges(
        self, db: sqlite3.Connection, session_id: str, count: int, max_bytes: int | None = None
    ) -> list[MessageRecord]:
        exchanges: list[list[MessageRecord]] = []
        for exchange_id in list(islice(_ended(db, session_id), max(0, count))):
            messages = []
            for row in db.execute(_OF_EXCHANGE, (exchange_id,)):
                if max_bytes is not None and (max_bytes := max_bytes - row_bytes(row)) < 0:
                    return _joined(exchanges)
                messages.append(MESSAGES.record_of(row))
            exchanges.append(messages)
        return _joined(exchanges)

    async def find_messages(self, search: MessageSearch) -> list[MessageRecord]:
        return await self.searcher.read("find_messages", lambda db: _found(db, search))


def _rows_from(db: sqlite3.Connection, session_id: str, rank: int) -> Iterator[Any]:
    """The session's rows from `rank` on, read as they are taken."""
    session = session_with(db, session_id)
    for span in spans_of(session) if session is not None else ():
        if rank < span.below_rank:
            yield from db.execute(_BETWEEN, (span.session_id, max(rank, span.from_rank), span.below_rank))


def _ended(db: sqlite3.Connection, session_id: str) -> Iterator[str]:
    """The ids of the session's ended exchanges, the last one first."""
    session = session_with(db, session_id)
    for span in reversed(spans_of(session)) if session is not None else ():
        for row in db.execute(_LAST_ENDED, (span.session_id, span.from_rank, span.below_rank)):
            yield row["id"]


def _found(db: sqlite3.Connection, search: MessageSearch) -> list[MessageRecord]:
    found: list[MessageRecord] = []
    others = {"user_id": search.user_id, "not_session": search.not_session}
    texts = TextSearch(db, search.user_id, search.folded_words)
    with closing(texts.sessions(_OF_OTHERS, others, search.limit, by_title=False)) as sessions:
        for _, messages in sessions:
            found += messages
            if len(found) >= search.limit:
                break
    return found[: search.limit]


def _joined(newest_first: list[list[MessageRecord]]) -> list[MessageRecord]:
    return [message for exchange in reversed(newest_first) for message in exchange]


def _messages(rows: Iterable[Any]) -> list[MessageRecord]:
    return [MESSAGES.record_of(row) for row in rows]


def _fitting(rows: Iterable[Any], max_bytes: int | None) -> list[Any]:
    """The first of `rows` that fit, at least one. Reads only these and one more."""
    found: list[Any] = []
    for row in rows:
        if max_bytes is not None and (max_bytes := max_bytes - row_bytes(row)) < 0 and found:
            break
        found.append(row)
    return found
