"""What SqliteStore writes: each function is the body of one transaction, which its connection begins and commits.

Invariants: the compare-and-set on the session comes before anything else is written for an exchange; a function that
raises leaves nothing behind, because its transaction is rolled back. Ranks are minted by `place` alone.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import zip_longest

from agentic_backend.errors import ApprovalNotFound, SessionBusy, SessionCompleted, SessionNotFound
from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import ChatMessage, MessageDraft, Session, SessionState, place
from agentic_backend.protocol.seq import next_epoch
from agentic_backend.stores.base import (
    AlreadyAsked,
    Checkpoint,
    ExchangeEnd,
    Fence,
    FencedOut,
    Pause,
    Written,
)
from agentic_backend.stores.records import ExchangeRecord, HumanDecision, KpiRecord
from agentic_backend.stores.rows import (
    Row,
    exchange_row,
    folded,
    json_text,
    kpi_row,
    message_of,
    message_row,
    rfc3339,
    session_of,
    session_row,
)
from agentic_backend.stores.sqlite_columns import (
    INSERT_EXCHANGE,
    INSERT_MESSAGE,
    INSERT_SESSION,
    MESSAGE_COLUMNS,
    SESSION_COLUMNS,
)
from agentic_backend.stores.sqlite_queries import get_session

# What an ask of a few sentences writes.
_PROOF_BYTES = 32_768

_RENAME = f"""
    UPDATE sessions SET title = :title, search_title = :search_title
    WHERE id = :id AND title = coalesce(:only_if, title)
    RETURNING {SESSION_COLUMNS}
"""

_COMPLETE = """
    UPDATE sessions SET state = 'completed', ended_at = max(updated_at, :at), updated_at = max(updated_at, :at)
    WHERE id = :id AND state = 'active'
"""

_ADMIT = f"""
    UPDATE sessions SET active_exchange_id = :exchange_id, active_owner = :owner, next_rank = next_rank + 1,
        message_count = message_count + 1, updated_at = max(updated_at, :at)
    WHERE id = :session_id AND user_id = :user_id AND state = 'active' AND active_exchange_id IS NULL
    RETURNING {SESSION_COLUMNS}
"""

# An exchange of an older schema has no owner, which IS compares too.
_HELD = "id = :session_id AND active_exchange_id = :exchange_id AND active_owner IS :owner AND next_rank = :next_rank"

_ADVANCE = f"""
    UPDATE sessions SET next_rank = next_rank + :count, message_count = message_count + :count,
        updated_at = max(updated_at, :at), last_write = :token,
        active_exchange_id = iif(:ends, NULL, active_exchange_id), active_owner = iif(:ends, NULL, active_owner)
    WHERE {_HELD}
    RETURNING {SESSION_COLUMNS}
"""

# The token of an end is the session's only until its next exchange begins to write.
_WRITTEN = f"""
    SELECT {SESSION_COLUMNS} FROM sessions JOIN exchanges ON exchanges.session_id = sessions.id
    WHERE exchanges.id = :exchange_id AND :token IN (sessions.last_write, exchanges.last_write)
"""

_WRITTEN_MESSAGES = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE exchange_id = ? AND rank >= ? ORDER BY rank"

_IS_LAST_WRITE = "SELECT 1 FROM exchanges WHERE id = ? AND last_write = ?"

_SET_WAITING = f"""
    UPDATE exchanges SET status = 'awaiting_human', owner = NULL, deadline = :deadline, partial = NULL,
        pending = :pending, usage = :usage, last_seq = :last_seq, ran_ms = :ran_ms, first_token_ms = :first_token_ms,
        last_write = :token
    WHERE id = :exchange_id AND status = 'running' AND EXISTS (SELECT 1 FROM sessions WHERE {_HELD})
    RETURNING id
"""

_DECIDE = """
    UPDATE exchanges SET decisions = :decisions, status = iif(:owner IS NULL, status, 'running'),
        deadline = iif(:owner IS NULL, deadline, NULL), owner = :owner, last_write = :token,
        last_seq = iif(:owner IS NULL, last_seq, :claimed_seq)
    WHERE id = :exchange_id AND status = 'awaiting_human' AND last_seq = :last_seq AND decisions IS :decided
    RETURNING id
"""

_SET_OWNER = "UPDATE sessions SET active_owner = :owner WHERE id = :session_id AND active_exchange_id = :exchange_id"

_KEEP_PARTIAL = "UPDATE exchanges SET partial = ? WHERE id = ? AND owner = ? AND status = 'running'"

_KEEP_CHECKPOINT = "UPDATE exchanges SET checkpoint = ?, checkpoint_record = ? WHERE id = ?"

_DROP_CHECKPOINTS = "UPDATE exchanges SET checkpoint = NULL WHERE session_id = ? AND checkpoint IS NOT NULL"

_END_EXCHANGE = """
    UPDATE exchanges SET status = :status, ended_at = :ended_at, usage = :usage, error = :error,
        last_seq = :last_seq, owner = NULL, deadline = NULL, partial = NULL, pending = NULL, last_write = :token,
        checkpoint = iif(:status = 'interrupted', checkpoint, NULL)
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
    db: sqlite3.Connection,
    exchange: ExchangeRecord,
    opening: MessageDraft,
    new_session: Session | None,
    checkpoint: Checkpoint | None,
    now: datetime,
) -> Written:
    _refuse_repeated(db, exchange)
    if new_session is not None:
        create_session(db, new_session)
    before = get_session(db, exchange.session_id)
    if before is None or before.user_id != exchange.user_id:
        raise SessionNotFound
    started_at = max(exchange.started_at, before.updated_at)
    session = _admit(db, exchange, max(now, started_at))
    begun = exchange.model_copy(update={"first_rank": before.next_rank, "started_at": started_at})
    db.execute(_DROP_CHECKPOINTS, (session.id,))
    db.execute(INSERT_EXCHANGE, exchange_row(begun))
    if checkpoint is not None:
        _keep_checkpoint(db, exchange.id, checkpoint)
    fence = Fence(session.id, exchange.id, before.next_rank)
    return Written(session, _insert(db, fence, [opening], session.updated_at))


def append(
    db: sqlite3.Connection,
    fence: Fence,
    drafts: Sequence[MessageDraft],
    end: ExchangeEnd | None,
    checkpoint: Checkpoint | None,
    blocks: Sequence[int | None],
    token: str | None,
    now: datetime,
) -> Written:
    advance = _fenced(fence) | {"count": len(drafts), "at": rfc3339(now), "ends": end is not None, "token": token}
    row = db.execute(_ADVANCE, advance).fetchone()
    if row is None:
        return _written(db, fence, token)
    session = session_of(row)
    messages = _insert(db, fence, drafts, session.updated_at, blocks)
    if checkpoint is not None:
        _keep_checkpoint(db, fence.exchange_id, checkpoint)
    if end is not None:
        _end(db, fence, end, session.updated_at, token)
    return Written(session, messages)


def _written(db: sqlite3.Connection, fence: Fence, token: str | None) -> Written:
    """What the write of this token made, where it is the last one. Raises FencedOut where it is not."""
    row = db.execute(_WRITTEN, {"exchange_id": fence.exchange_id, "token": token}).fetchone()
    if row is None:
        raise FencedOut
    rows = db.execute(_WRITTEN_MESSAGES, (fence.exchange_id, fence.next_rank))
    return Written(session_of(row), [message_of(row) for row in rows])


def set_waiting(db: sqlite3.Connection, fence: Fence, pause: Pause, token: str | None) -> None:
    waiting = {
        "token": token,
        "pending": json_text(pause.pending),
        "deadline": None if pause.deadline is None else rfc3339(pause.deadline),
        "usage": json_text(pause.usage),
        "last_seq": pause.last_seq,
        "ran_ms": pause.ran_ms,
        "first_token_ms": pause.first_token_ms,
    }
    if db.execute(_SET_WAITING, _fenced(fence) | waiting).fetchone() is None:
        if _is_last_write(db, fence.exchange_id, token):
            return
        raise FencedOut
    _keep_checkpoint(db, fence.exchange_id, pause.checkpoint)


def decide(
    db: sqlite3.Connection,
    waiting: ExchangeRecord,
    decisions: Sequence[HumanDecision],
    owner: str | None,
    token: str | None,
) -> None:
    """What decides is that the exchange still has the decisions, and the pause, that `waiting` has."""
    claim = {
        "exchange_id": waiting.id,
        "session_id": waiting.session_id,
        "last_seq": waiting.last_seq,
        "decided": json_text(waiting.decisions),
        "decisions": json_text([*waiting.decisions, *decisions]),
        "owner": owner,
        "claimed_seq": next_epoch(waiting.last_seq),
        "token": token,
    }
    if db.execute(_DECIDE, claim).fetchone() is None:
        if _is_last_write(db, waiting.id, token):
            return
        raise ApprovalNotFound
    if owner is not None:
        db.execute(_SET_OWNER, claim)


def _is_last_write(db: sqlite3.Connection, exchange_id: str, token: str | None) -> bool:
    return db.execute(_IS_LAST_WRITE, (exchange_id, token)).fetchone() is not None


def keep_partials(db: sqlite3.Connection, owner: str, partials: Mapping[str, Sequence[PartialText]]) -> None:
    db.executemany(_KEEP_PARTIAL, [(json_text(texts), exchange_id, owner) for exchange_id, texts in partials.items()])


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
            "owner": exchange.owner,
            "at": rfc3339(at),
        },
    ).fetchone()
    if row is not None:
        return session_of(row)
    session = get_session(db, exchange.session_id)
    raise SessionCompleted if session is not None and session.state is SessionState.COMPLETED else SessionBusy


def _insert(
    db: sqlite3.Connection,
    fence: Fence,
    drafts: Sequence[MessageDraft],
    at: datetime,
    blocks: Sequence[int | None] = (),
) -> list[ChatMessage]:
    messages = place(
        list(drafts), session_id=fence.session_id, exchange_id=fence.exchange_id, next_rank=fence.next_rank, at=at
    )
    rows = zip_longest(messages, blocks)
    db.executemany(INSERT_MESSAGE, [message_row(message) | {"block": block} for message, block in rows])
    return messages


def _keep_checkpoint(db: sqlite3.Connection, exchange_id: str, checkpoint: Checkpoint) -> None:
    db.execute(_KEEP_CHECKPOINT, (checkpoint.state, json_text(checkpoint.record), exchange_id))


def _end(db: sqlite3.Connection, fence: Fence, end: ExchangeEnd, at: datetime, token: str | None) -> None:
    db.execute(
        _END_EXCHANGE,
        {
            "exchange_id": fence.exchange_id,
            "status": end.status,
            "ended_at": rfc3339(at),
            "usage": json_text(end.usage),
            "error": json_text(end.error),
            "last_seq": end.last_seq,
            "token": token,
        },
    )
    if end.session_state is not None:
        db.execute(_SET_STATE, (fence.session_id, end.session_state))
    if end.kpi is not None:
        record_kpi(db, end.kpi)


def _fenced(fence: Fence) -> Row:
    return {
        "session_id": fence.session_id,
        "exchange_id": fence.exchange_id,
        "next_rank": fence.next_rank,
        "owner": fence.owner,
    }


def prove_write(db: sqlite3.Connection) -> None:
    """Fill some pages of a table that is there for this alone, and belongs to no schema version."""
    db.execute("CREATE TABLE IF NOT EXISTS write_proofs (id INTEGER PRIMARY KEY, filler BLOB NOT NULL) STRICT")
    db.execute("INSERT OR REPLACE INTO write_proofs VALUES (0, randomblob(?))", (_PROOF_BYTES,))
