"""What SqliteStore writes: each function is the body of one transaction, which its connection begins and commits.

Invariants: the compare-and-set on the session comes before anything else is written for an exchange; a function that
raises leaves nothing behind, because its transaction is rolled back. Ranks are minted by `place` alone.
"""

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from agentic_backend.errors import SessionBusy, SessionCompleted, SessionNotFound
from agentic_backend.protocol.events import HumanRequests
from agentic_backend.protocol.messages import ChatMessage, MessageDraft, Session, SessionState, place, utc_now
from agentic_backend.stores.base import (
    AlreadyAsked,
    ExchangeEnd,
    ExchangeRecord,
    Fence,
    FencedOut,
    KpiRecord,
    Written,
)
from agentic_backend.stores.rows import (
    Row,
    exchange_row,
    folded,
    json_text,
    kpi_row,
    message_row,
    rfc3339,
    session_of,
    session_row,
)
from agentic_backend.stores.sqlite_columns import INSERT_EXCHANGE, INSERT_MESSAGE, INSERT_SESSION, SESSION_COLUMNS
from agentic_backend.stores.sqlite_queries import get_session

_RENAME = f"""
    UPDATE sessions SET title = :title, search_title = :search_title
    WHERE id = :id AND title = coalesce(:only_if, title)
    RETURNING {SESSION_COLUMNS}
"""

_COMPLETE = """
    UPDATE sessions SET state = 'completed', ended_at = :at, updated_at = :at
    WHERE id = :id AND state = 'active'
"""

_ADMIT = f"""
    UPDATE sessions SET active_exchange_id = :exchange_id, next_rank = next_rank + 1,
        message_count = message_count + 1, updated_at = :at
    WHERE id = :session_id AND user_id = :user_id AND state = 'active' AND active_exchange_id IS NULL
    RETURNING {SESSION_COLUMNS}
"""

_ADVANCE = f"""
    UPDATE sessions SET next_rank = next_rank + :count, message_count = message_count + :count, updated_at = :at,
        active_exchange_id = iif(:ends, NULL, active_exchange_id)
    WHERE id = :session_id AND active_exchange_id = :exchange_id AND next_rank = :next_rank
    RETURNING {SESSION_COLUMNS}
"""

_SET_WAITING = """
    UPDATE exchanges SET status = 'awaiting_human', pending = :pending, checkpoint = :checkpoint
    WHERE id = :exchange_id AND EXISTS (
        SELECT 1 FROM sessions
        WHERE id = :session_id AND active_exchange_id = :exchange_id AND next_rank = :next_rank)
    RETURNING id
"""

_END_EXCHANGE = """
    UPDATE exchanges SET status = :status, ended_at = :ended_at, usage = :usage, error = :error,
        last_seq = :last_seq, pending = NULL, checkpoint = NULL
    WHERE id = :exchange_id
"""

_SET_STATE = "INSERT OR REPLACE INTO session_states (session_id, state) VALUES (?, ?)"

_RECORD_KPI = """
    INSERT OR REPLACE INTO kpi_records (exchange_id, user_id, started_at, record)
    VALUES (:exchange_id, :user_id, :started_at, :record)
"""


def create_session(db: sqlite3.Connection, session: Session) -> None:
    db.execute(INSERT_SESSION, session_row(session))


def rename_session(db: sqlite3.Connection, session_id: str, title: str, only_if: str | None) -> Session | None:
    """A new title is no activity: `updated_at`, and so the session's place in the list, stays."""
    row = db.execute(
        _RENAME, {"id": session_id, "title": title, "search_title": folded(title), "only_if": only_if}
    ).fetchone()
    return None if row is None else session_of(row)


def complete_session(db: sqlite3.Connection, session_id: str, at: datetime) -> Session | None:
    db.execute(_COMPLETE, {"id": session_id, "at": rfc3339(at)})
    return get_session(db, session_id)


def delete_session(db: sqlite3.Connection, session_id: str) -> None:
    """Its state, exchanges and messages go with it, by their foreign keys."""
    db.execute("DELETE FROM sessions WHERE id = ?", (session_id,))


def begin_exchange(
    db: sqlite3.Connection, exchange: ExchangeRecord, opening: MessageDraft, new_session: Session | None
) -> Written:
    _refuse_repeated(db, exchange)
    if new_session is not None:
        create_session(db, new_session)
    at = utc_now()
    session = _admit(db, exchange, at)
    first_rank = session.next_rank - 1
    db.execute(INSERT_EXCHANGE, exchange_row(exchange) | {"first_rank": first_rank})
    return Written(session, _insert(db, Fence(session.id, exchange.id, first_rank), [opening], at))


def append(db: sqlite3.Connection, fence: Fence, drafts: Sequence[MessageDraft], end: ExchangeEnd | None) -> Written:
    at = utc_now()
    advance = _fenced(fence) | {"count": len(drafts), "at": rfc3339(at), "ends": end is not None}
    row = db.execute(_ADVANCE, advance).fetchone()
    if row is None:
        raise FencedOut
    messages = _insert(db, fence, drafts, at)
    if end is not None:
        _end(db, fence, end)
    return Written(session_of(row), messages)


def set_waiting(db: sqlite3.Connection, fence: Fence, pending: HumanRequests, checkpoint: bytes | None) -> None:
    waiting = {"pending": json_text(pending), "checkpoint": checkpoint}
    if db.execute(_SET_WAITING, _fenced(fence) | waiting).fetchone() is None:
        raise FencedOut


def record_kpi(db: sqlite3.Connection, record: KpiRecord) -> None:
    """Recorded again, after an answer that got lost, it replaces itself."""
    db.execute(_RECORD_KPI, kpi_row(record))


def _refuse_repeated(db: sqlite3.Connection, exchange: ExchangeRecord) -> None:
    """Writers come one by one, so what isn't there now won't be there at the insert either."""
    row = db.execute(
        "SELECT id FROM exchanges WHERE user_id = ? AND client_exchange_id = ?",
        (exchange.user_id, exchange.client_exchange_id),
    ).fetchone()
    if row is not None:
        raise AlreadyAsked(row["id"])


def _admit(db: sqlite3.Connection, exchange: ExchangeRecord, at: datetime) -> Session:
    row = db.execute(
        _ADMIT,
        {
            "session_id": exchange.session_id,
            "user_id": exchange.user_id,
            "exchange_id": exchange.id,
            "at": rfc3339(at),
        },
    ).fetchone()
    if row is not None:
        return session_of(row)
    session = get_session(db, exchange.session_id)
    if session is None or session.user_id != exchange.user_id:
        raise SessionNotFound
    raise SessionCompleted if session.state is SessionState.COMPLETED else SessionBusy


def _insert(db: sqlite3.Connection, fence: Fence, drafts: Sequence[MessageDraft], at: datetime) -> list[ChatMessage]:
    messages = place(
        list(drafts), session_id=fence.session_id, exchange_id=fence.exchange_id, next_rank=fence.next_rank, at=at
    )
    db.executemany(INSERT_MESSAGE, [message_row(message) for message in messages])
    return messages


def _end(db: sqlite3.Connection, fence: Fence, end: ExchangeEnd) -> None:
    db.execute(
        _END_EXCHANGE,
        {
            "exchange_id": fence.exchange_id,
            "status": end.status,
            "ended_at": rfc3339(end.ended_at),
            "usage": json_text(end.usage),
            "error": json_text(end.error),
            "last_seq": end.last_seq,
        },
    )
    if end.session_state is not None:
        db.execute(_SET_STATE, (fence.session_id, end.session_state))
    if end.kpi is not None:
        record_kpi(db, end.kpi)


def _fenced(fence: Fence) -> Row:
    return {"session_id": fence.session_id, "exchange_id": fence.exchange_id, "next_rank": fence.next_rank}
