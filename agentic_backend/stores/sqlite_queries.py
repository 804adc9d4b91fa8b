"""What SqliteStore reads.

Most functions are one statement, and so see one state of the database; the others read what no longer changes, or
count.
"""

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from pydantic_core import from_json

from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import ChatMessage, Session
from agentic_backend.stores.base import Checkpoint, Fence, SessionPage, SessionQuery
from agentic_backend.stores.cursor import cursor_after, place_of
from agentic_backend.stores.records import CheckpointRecord, ExchangeRecord, KpiRecord
from agentic_backend.stores.rows import (
    exchange_of,
    folded,
    kpi_of,
    message_of,
    partial_of,
    rfc3339,
    row_bytes,
    session_of,
    unstored,
)
from agentic_backend.stores.sqlite_columns import EXCHANGE_COLUMNS, MESSAGE_COLUMNS, SESSION_COLUMNS
from agentic_backend.stores.transfer import Counts

# What waits without a deadline waits on.
_EXPIRED = f"""
    SELECT {EXCHANGE_COLUMNS} FROM exchanges
    WHERE status IN ('running', 'awaiting_human') AND status = 'awaiting_human' AND deadline < :at
    ORDER BY deadline LIMIT :limit
"""

# The first condition lets the index of what has not ended be used.
_RUNNING = "status IN ('running', 'awaiting_human') AND status = 'running'"

_FENCE = """
    SELECT active_exchange_id, next_rank, active_owner, updated_at FROM sessions
    WHERE id = ? AND active_exchange_id IS NOT NULL
"""

_CHECKPOINT = "SELECT checkpoint_record, checkpoint FROM exchanges WHERE id = ? AND checkpoint IS NOT NULL"

_PARTIAL = """
    SELECT partial, (SELECT json_group_array(block) FROM messages WHERE exchange_id = exchanges.id) AS stored
    FROM exchanges WHERE id = ? AND partial IS NOT NULL
"""

_EXCHANGE_MESSAGES = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE exchange_id = ? ORDER BY rank"

_MESSAGES_AFTER = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE session_id = ? AND rank > ? ORDER BY rank LIMIT ?"

_LAST_ENDED = """
    SELECT id FROM exchanges WHERE session_id = ? AND status NOT IN ('running', 'awaiting_human')
    ORDER BY first_rank DESC LIMIT ?
"""

_HOLDS_TEXT = """(instr(search_title, :text) OR EXISTS (
    SELECT 1 FROM messages WHERE messages.session_id = sessions.id AND instr(messages.search_text, :text)))"""


def get_session(db: sqlite3.Connection, session_id: str) -> Session | None:
    row = db.execute(f"SELECT {SESSION_COLUMNS} FROM sessions WHERE id = ?", (session_id,)).fetchone()
    return None if row is None else session_of(row)


def list_sessions(db: sqlite3.Connection, query: SessionQuery) -> SessionPage:
    # One row more than the page holds tells whether another page follows.
    parameters: dict[str, object] = {"user_id": query.user_id, "limit": query.limit + 1}
    conditions = ["user_id = :user_id"]
    if query.cursor is not None:
        updated_at, session_id = place_of(query.cursor)
        conditions.append("(updated_at, id) < (:updated_at, :session_id)")
        parameters |= {"updated_at": rfc3339(updated_at), "session_id": session_id}
    if query.agent_id is not None:
        conditions.append("agent_id = :agent_id")
        parameters["agent_id"] = query.agent_id
    if query.state is not None:
        conditions.append("state = :state")
        parameters["state"] = query.state
    if query.text:
        conditions.append(_HOLDS_TEXT)
        parameters["text"] = folded(query.text)
    sql = f"""SELECT {SESSION_COLUMNS} FROM sessions WHERE {" AND ".join(conditions)}
        ORDER BY updated_at DESC, id DESC LIMIT :limit"""
    found = [session_of(row) for row in db.execute(sql, parameters)]
    sessions = found[: query.limit]
    return SessionPage(sessions, cursor_after(sessions[-1]) if len(found) > query.limit else None)


def session_state(db: sqlite3.Connection, session_id: str) -> bytes | None:
    row = db.execute("SELECT state FROM session_states WHERE session_id = ?", (session_id,)).fetchone()
    return None if row is None else row["state"]


def get_exchange(db: sqlite3.Connection, exchange_id: str) -> ExchangeRecord | None:
    row = db.execute(f"SELECT {EXCHANGE_COLUMNS} FROM exchanges WHERE id = ?", (exchange_id,)).fetchone()
    return None if row is None else exchange_of(row)


def fence(db: sqlite3.Connection, session_id: str) -> Fence | None:
    row = db.execute(_FENCE, (session_id,)).fetchone()
    if row is None:
        return None
    after = datetime.fromisoformat(row["updated_at"])
    return Fence(session_id, row["active_exchange_id"], row["next_rank"], row["active_owner"], after)


def checkpoint(db: sqlite3.Connection, exchange_id: str) -> Checkpoint | None:
    row = db.execute(_CHECKPOINT, (exchange_id,)).fetchone()
    if row is None:
        return None
    return Checkpoint(CheckpointRecord.model_validate_json(row["checkpoint_record"]), row["checkpoint"])


def partial(db: sqlite3.Connection, exchange_id: str) -> list[PartialText]:
    row = db.execute(_PARTIAL, (exchange_id,)).fetchone()
    return [] if row is None else unstored(partial_of(row["partial"]), from_json(row["stored"]))


def find_exchange(db: sqlite3.Connection, user_id: str, client_exchange_id: str) -> ExchangeRecord | None:
    sql = f"SELECT {EXCHANGE_COLUMNS} FROM exchanges WHERE user_id = ? AND client_exchange_id = ?"
    row = db.execute(sql, (user_id, client_exchange_id)).fetchone()
    return None if row is None else exchange_of(row)


def running_exchanges(
    db: sqlite3.Connection, not_of: Collection[str], not_among: Collection[str], limit: int
) -> list[ExchangeRecord]:
    sql = f"""SELECT {EXCHANGE_COLUMNS} FROM exchanges WHERE {_RUNNING}
        AND (owner IS NULL OR owner NOT IN ({_places(not_of)})) AND id NOT IN ({_places(not_among)}) LIMIT ?"""
    return [exchange_of(row) for row in db.execute(sql, (*not_of, *not_among, limit))]


def running_among(db: sqlite3.Connection, owner: str, exchange_ids: Collection[str]) -> set[str]:
    sql = f"SELECT id FROM exchanges WHERE {_RUNNING} AND owner = ? AND id IN ({_places(exchange_ids)})"
    return {row["id"] for row in db.execute(sql, (owner, *exchange_ids))}


def expired_exchanges(db: sqlite3.Connection, at: datetime, limit: int) -> list[ExchangeRecord]:
    return [exchange_of(row) for row in db.execute(_EXPIRED, {"at": rfc3339(at), "limit": limit})]


def count_waiting(db: sqlite3.Connection, user_id: str) -> int:
    return _count(db, "exchanges WHERE user_id = ? AND status = 'awaiting_human'", [user_id])


def count_empty_sessions(db: sqlite3.Connection, user_id: str) -> int:
    return _count(db, "sessions WHERE user_id = ? AND next_rank = 0", [user_id])


def exchange_messages(db: sqlite3.Connection, exchange_id: str, max_bytes: int | None) -> list[ChatMessage]:
    if max_bytes is None:
        return [message_of(row) for row in db.execute(_EXCHANGE_MESSAGES, (exchange_id,))]
    last = _fitting(db.execute(f"{_EXCHANGE_MESSAGES} DESC", (exchange_id,)), max_bytes)[::-1]
    first = db.execute(f"{_EXCHANGE_MESSAGES} LIMIT 1", (exchange_id,)).fetchall()
    is_whole = not last or last[0]["rank"] == first[0]["rank"]
    return [message_of(row) for row in (last if is_whole else [*first, *last])]


def messages_after(
    db: sqlite3.Connection, session_id: str, after_rank: int, limit: int, max_bytes: int | None
) -> list[ChatMessage]:
    return [
        message_of(row) for row in _fitting(db.execute(_MESSAGES_AFTER, (session_id, after_rank, limit)), max_bytes)
    ]


def last_exchanges(db: sqlite3.Connection, session_id: str, count: int, max_bytes: int | None) -> list[ChatMessage]:
    exchanges: list[list[ChatMessage]] = []
    for (exchange_id,) in db.execute(_LAST_ENDED, (session_id, count)).fetchall():
        messages = []
        for row in db.execute(_EXCHANGE_MESSAGES, (exchange_id,)):
            if max_bytes is not None and (max_bytes := max_bytes - row_bytes(row)) < 0:
                return [message for exchange in reversed(exchanges) for message in exchange]
            messages.append(message_of(row))
        exchanges.append(messages)
    return [message for exchange in reversed(exchanges) for message in exchange]


def _fitting(rows: Iterable[Any], max_bytes: int | None) -> list[Any]:
    """The first of `rows` that fit, one at least; only these, and one more, are read."""
    found: list[Any] = []
    for row in rows:
        if max_bytes is not None and (max_bytes := max_bytes - row_bytes(row)) < 0 and found:
            break
        found.append(row)
    return found


def sessions_by_id(db: sqlite3.Connection, after_id: str, limit: int) -> list[Session]:
    sql = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE id > ? ORDER BY id LIMIT ?"
    return [session_of(row) for row in db.execute(sql, (after_id, limit))]


def exchanges_by_rank(db: sqlite3.Connection, session_id: str, after_rank: int, limit: int) -> list[ExchangeRecord]:
    sql = f"""SELECT {EXCHANGE_COLUMNS} FROM exchanges WHERE session_id = ? AND first_rank > ?
        ORDER BY first_rank LIMIT ?"""
    return [exchange_of(row) for row in db.execute(sql, (session_id, after_rank, limit))]


def kpi_records_by_exchange(db: sqlite3.Connection, after_id: str, limit: int) -> list[KpiRecord]:
    sql = "SELECT record FROM kpi_records WHERE exchange_id > ? ORDER BY exchange_id LIMIT ?"
    return [kpi_of(row) for row in db.execute(sql, (after_id, limit))]


def count_sessions(db: sqlite3.Connection, session_ids: Sequence[str]) -> Counts:
    among = f"IN ({_places(session_ids)})"
    columns = {"sessions": "id", "exchanges": "session_id", "messages": "session_id"}
    return Counts(*(_count(db, f"{table} WHERE {column} {among}", session_ids) for table, column in columns.items()))


def total(db: sqlite3.Connection) -> Counts:
    tables = ("sessions", "exchanges", "messages", "kpi_records")
    return Counts(*(_count(db, table) for table in tables))


def _count(db: sqlite3.Connection, rows: str, parameters: Sequence[str] = ()) -> int:
    number: int = db.execute(f"SELECT count(*) FROM {rows}", parameters).fetchone()[0]
    return number


def _places(values: Collection[str]) -> str:
    return ", ".join("?" * len(values))
