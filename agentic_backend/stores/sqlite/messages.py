"""Reads messages from SQLite; they are written with their exchange."""

import sqlite3
from collections.abc import Iterable
from typing import Any

from agentic_backend.stores.message_search import SEARCHED_CHANNEL, MessageSearch
from agentic_backend.stores.records import MessageRecord
from agentic_backend.stores.rows import row_bytes, with_first
from agentic_backend.stores.sqlite.operations import Part, columns, reads
from agentic_backend.stores.tables import MESSAGES

_OF_EXCHANGE = f"SELECT {columns(MESSAGES)} FROM messages WHERE exchange_id = ? ORDER BY rank"

_AFTER = f"SELECT {columns(MESSAGES)} FROM messages WHERE session_id = ? AND rank > ? ORDER BY rank LIMIT ?"

_LAST_ENDED = """
    SELECT id FROM exchanges WHERE session_id = ? AND status NOT IN ('running', 'awaiting_human')
    ORDER BY first_rank DESC LIMIT ?
"""


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
        return _messages(_fitting(db.execute(_AFTER, (session_id, after_rank, limit)), max_bytes))

    @reads
    def last_exchanges(
        self, db: sqlite3.Connection, session_id: str, count: int, max_bytes: int | None = None
    ) -> list[MessageRecord]:
        exchanges: list[list[MessageRecord]] = []
        for (exchange_id,) in db.execute(_LAST_ENDED, (session_id, count)).fetchall():
            messages = []
            for row in db.execute(_OF_EXCHANGE, (exchange_id,)):
                if max_bytes is not None and (max_bytes := max_bytes - row_bytes(row)) < 0:
                    return _joined(exchanges)
                messages.append(MESSAGES.record_of(row))
            exchanges.append(messages)
        return _joined(exchanges)

    async def find_messages(self, search: MessageSearch) -> list[MessageRecord]:
        return await self.searcher.read("find_messages", lambda db: _found(db, search))


def _found(db: sqlite3.Connection, search: MessageSearch) -> list[MessageRecord]:
    words = search.folded_words
    holds_words = " AND ".join(["instr(messages.search_text, ?)"] * len(words)) or "true"
    rows = db.execute(
        f"SELECT {columns(MESSAGES)} FROM sessions JOIN messages ON messages.session_id = sessions.id "
        f"WHERE sessions.user_id = ? AND sessions.id != ? AND messages.channel = ? AND {holds_words} "
        "ORDER BY sessions.updated_at DESC, sessions.id DESC, messages.rank DESC LIMIT ?",
        (search.user_id, search.not_session or "", SEARCHED_CHANNEL.value, *words, search.limit),
    )
    return _messages(rows)


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
