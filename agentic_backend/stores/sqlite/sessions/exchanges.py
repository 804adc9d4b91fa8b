"""Exchanges in SQLite: their beginning, their writes, their end, and queries for them.

Invariants: the compare-and-set on the session comes before every other write for an exchange; an operation that raises
leaves nothing behind, because its transaction is rolled back. Only `place` mints ranks.
"""

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from agentic_backend.errors import SessionBusy, SessionCompleted, SessionNotFound
from agentic_backend.protocol.messages import ExchangeStatus, SessionState
from agentic_backend.stores.base import (
    STATES_KEPT,
    AlreadyAsked,
    Checkpoint,
    ExchangeEnd,
    Fence,
    FencedOut,
    Written,
)
from agentic_backend.stores.protocol.trail import TrailRecord, starts_background
from agentic_backend.stores.records import ExchangeRecord, MessageDraft, MessageRecord, SessionRecord, place
from agentic_backend.stores.rows import Row, json_text, rfc3339
from agentic_backend.stores.sqlite.operation_base import (
    Part,
    columns,
    first,
    insert,
    placeholders,
    put,
    reads,
    select,
    writes,
)
from agentic_backend.stores.sqlite.sessions.sessions import session_with
from agentic_backend.stores.sqlite.sessions.trail import put_trail
from agentic_backend.stores.tables import EXCHANGES, KPI_RECORDS, MESSAGES, SESSIONS

_ADMIT = f"""
    UPDATE sessions SET active_exchange_id = :exchange_id, active_owner = :owner, next_rank = next_rank + 1,
        message_count = message_count + 1, turn_count = coalesce(turn_count, 0) + 1, updated_at = max(updated_at, :at),
        archived = FALSE
    WHERE id = :session_id AND user_id = :user_id AND state = 'active' AND active_exchange_id IS NULL
    RETURNING {columns(SESSIONS)}
"""

_TAKE_OUT = "UPDATE sessions SET archived = FALSE WHERE id = :family_id OR root_id = :family_id"

# IS also compares NULL: an exchange of an older schema has no owner.
HELD = "id = :session_id AND active_exchange_id = :exchange_id AND active_owner IS :owner AND next_rank = :next_rank"
"""The condition on the session's row for a valid fence."""

_ADVANCE = f"""
    UPDATE sessions SET next_rank = next_rank + :count, message_count = message_count + :count,
        updated_at = max(updated_at, :at), last_write = :token,
        has_background = max(coalesce(has_background, 0), :starts_background),
        active_exchange_id = iif(:ends, NULL, active_exchange_id), active_owner = iif(:ends, NULL, active_owner)
    WHERE {HELD}
    RETURNING {columns(SESSIONS)}
"""

# The session has the token of an end only until its next exchange writes, so look at the exchange's too.
_WRITTEN = f"""
    SELECT {columns(SESSIONS)} FROM sessions JOIN exchanges ON exchanges.session_id = sessions.id
    WHERE exchanges.id = :exchange_id AND :token IN (sessions.last_write, exchanges.last_write)
"""

_KEEP_CHECKPOINT = "UPDATE exchanges SET checkpoint = ?, checkpoint_record = ? WHERE id = ?"

_FORGET_STATES = """
    DELETE FROM session_states WHERE session_id = :session_id AND rank <= (
        SELECT rank FROM session_states WHERE session_id = :session_id ORDER BY rank DESC LIMIT 1 OFFSET :kept)
"""

_END_EXCHANGE = """
    UPDATE exchanges SET status = :status, ended_at = :ended_at, usage = :usage, error = :error,
        last_seq = :last_seq, owner = NULL, deadline = NULL, partial = NULL, pending = NULL, last_write = :token,
        checkpoint = iif(:status = 'interrupted', checkpoint, NULL),
        runtime_context = iif(:status = 'interrupted' AND checkpoint IS NOT NULL, runtime_context, NULL),
        policy = iif(:status = 'interrupted' AND checkpoint IS NOT NULL, policy, NULL)
    WHERE id = :exchange_id
"""

_RESET = f"""
    UPDATE sessions SET reset_rank = next_rank, summary_id = NULL WHERE id = ? AND active_exchange_id IS NULL
    RETURNING {columns(SESSIONS)}
"""

_DROP_CHECKPOINTS = """
    UPDATE exchanges SET checkpoint = NULL, runtime_context = NULL, policy = NULL
    WHERE session_id = ? AND checkpoint IS NOT NULL
"""

# The first condition matches the partial index of exchanges that have not ended, so that SQLite uses it.
_RUNNING = "status IN ('running', 'awaiting_human') AND status = 'running'"

# A NULL deadline never expires.
_EXPIRED = "status IN ('running', 'awaiting_human') AND status = 'awaiting_human' AND deadline < ? ORDER BY deadline"


def fenced(fence: Fence) -> Row:
    """The parameters of HELD."""
    return {
        "session_id": fence.session_id,
        "exchange_id": fence.exchange_id,
        "next_rank": fence.next_rank,
        "owner": fence.owner,
    }


def keep_checkpoint(db: sqlite3.Connection, exchange_id: str, checkpoint: Checkpoint) -> None:
    db.execute(_KEEP_CHECKPOINT, (checkpoint.state, json_text(checkpoint.record), exchange_id))


class Exchanges(Part):
    @writes
    def begin_exchange(
        self,
        db: sqlite3.Connection,
        exchange: ExchangeRecord,
        opening: MessageDraft,
        new_session: SessionRecord | None = None,
        checkpoint: Checkpoint | None = None,
        trail: Sequence[TrailRecord] = (),
    ) -> Written:
        _refuse_repeated(db, exchange)
        if new_session is not None:
            if session_with(db, new_session.id) is not None:
                raise SessionBusy
            insert(db, SESSIONS, [new_session])
        before = session_with(db, exchange.session_id)
        if before is None or before.user_id != exchange.user_id:
            raise SessionNotFound
        started_at = max(exchange.started_at, before.updated_at)
        session = _admit(db, exchange, max(self.now(), started_at))
        if before.archived:
            db.execute(_TAKE_OUT, {"family_id": session.family_id})
        begun = replace(exchange, first_rank=before.next_rank, started_at=started_at)
        db.execute(_DROP_CHECKPOINTS, (session.id,))
        insert(db, EXCHANGES, [begun])
        if checkpoint is not None:
            keep_checkpoint(db, exchange.id, checkpoint)
        put_trail(db, trail)
        fence = Fence(session.id, exchange.id, before.next_rank)
        return Written(session, _insert(db, fence, [opening], session.updated_at), before.archived)

    @writes
    def append(
        self,
        db: sqlite3.Connection,
        fence: Fence,
        drafts: Sequence[MessageDraft],
        end: ExchangeEnd | None = None,
        checkpoint: Checkpoint | None = None,
        *,
        blocks: Sequence[int | None] = (),
        trail: Sequence[TrailRecord] = (),
        token: str | None = None,
    ) -> Written:
        advance = {
            "count": len(drafts),
            "at": rfc3339(self.now()),
            "ends": end is not None,
            "token": token,
            "starts_background": starts_background(trail),
        }
        row = db.execute(_ADVANCE, fenced(fence) | advance).fetchone()
        if row is None:
            return _written(db, fence, token)
        session = SESSIONS.record_of(row)
        messages = _insert(db, fence, drafts, session.updated_at, blocks)
        put_trail(db, trail)
        if checkpoint is not None:
            keep_checkpoint(db, fence.exchange_id, checkpoint)
        if end is not None:
            _end(db, fence, end, session, token)
        return Written(session, messages)

    @writes
    def reset_state(self, db: sqlite3.Connection, session_id: str) -> SessionRecord | None:
        row = db.execute(_RESET, (session_id,)).fetchone()
        if row is None:
            if session_with(db, session_id) is not None:
                raise SessionBusy
            return None
        db.execute("DELETE FROM session_states WHERE session_id = ?", (session_id,))
        db.execute("DELETE FROM summaries WHERE session_id = ?", (session_id,))
        db.execute(_DROP_CHECKPOINTS, (session_id,))
        return SESSIONS.record_of(row)

    @reads
    def get_exchange(self, db: sqlite3.Connection, exchange_id: str) -> ExchangeRecord | None:
        return first(db, EXCHANGES, "id = ?", (exchange_id,))

    @reads
    def find_exchange(self, db: sqlite3.Connection, user_id: str, client_exchange_id: str) -> ExchangeRecord | None:
        return first(db, EXCHANGES, "user_id = ? AND client_exchange_id = ?", (user_id, client_exchange_id))

    @reads
    def running_exchanges(
        self,
        db: sqlite3.Connection,
        *,
        not_of: Collection[str] = (),
        not_among: Collection[str] = (),
        limit: int = 1000,
    ) -> list[ExchangeRecord]:
        others = f"(owner IS NULL OR owner NOT IN ({placeholders(not_of)})) AND id NOT IN ({placeholders(not_among)})"
        return select(db, EXCHANGES, f"{_RUNNING} AND {others} LIMIT ?", (*not_of, *not_among, limit))

    @reads
    def running_among(self, db: sqlite3.Connection, owner: str, exchange_ids: Collection[str]) -> set[str]:
        sql = f"SELECT id FROM exchanges WHERE {_RUNNING} AND owner = ? AND id IN ({placeholders(exchange_ids)})"
        return {row["id"] for row in db.execute(sql, (owner, *exchange_ids))}

    @reads
    def client_exchange_ids(self, db: sqlite3.Connection, exchange_ids: Collection[str]) -> dict[str, str]:
        named = f"id IN ({placeholders(exchange_ids)}) AND client_exchange_id IS NOT NULL"
        rows = db.execute(f"SELECT id, client_exchange_id FROM exchanges WHERE {named}", tuple(exchange_ids))
        return {row["id"]: row["client_exchange_id"] for row in rows}

    @reads
    def statuses(self, db: sqlite3.Connection, exchange_ids: Collection[str]) -> dict[str, ExchangeStatus]:
        sql = f"SELECT id, status FROM exchanges WHERE id IN ({placeholders(exchange_ids)})"
        return {row["id"]: ExchangeStatus(row["status"]) for row in db.execute(sql, tuple(exchange_ids))}

    @reads
    def expired_exchanges(self, db: sqlite3.Connection, at: datetime, limit: int = 1000) -> list[ExchangeRecord]:
        return select(db, EXCHANGES, f"{_EXPIRED} LIMIT ?", (rfc3339(at), limit))


def _refuse_repeated(db: sqlite3.Connection, exchange: ExchangeRecord) -> None:
    """Raises AlreadyAsked. Writers take turns, so no other one can insert the exchange before this one does."""
    row = db.execute(
        "SELECT id FROM exchanges WHERE user_id = ? AND client_exchange_id = ?",
        (exchange.user_id, exchange.client_exchange_id),
    ).fetchone()
    if row is not None:
        raise AlreadyAsked(row["id"])


def _admit(db: sqlite3.Connection, exchange: ExchangeRecord, at: datetime) -> SessionRecord:
    admitted = {
        "session_id": exchange.session_id,
        "user_id": exchange.user_id,
        "exchange_id": exchange.id,
        "owner": exchange.owner,
        "at": rfc3339(at),
    }
    row = db.execute(_ADMIT, admitted).fetchone()
    if row is not None:
        return SESSIONS.record_of(row)
    session = session_with(db, exchange.session_id)
    raise SessionCompleted if session is not None and session.state is SessionState.COMPLETED else SessionBusy


def _insert(
    db: sqlite3.Connection,
    fence: Fence,
    drafts: Sequence[MessageDraft],
    at: datetime,
    blocks: Sequence[int | None] = (),
) -> list[MessageRecord]:
    messages = place(
        drafts,
        session_id=fence.session_id,
        exchange_id=fence.exchange_id,
        next_rank=fence.next_rank,
        at=at,
        blocks=blocks,
    )
    insert(db, MESSAGES, messages)
    return messages


def _written(db: sqlite3.Connection, fence: Fence, token: str | None) -> Written:
    """The result of the last write, if it has this token. Raises FencedOut if it has not."""
    row = db.execute(_WRITTEN, {"exchange_id": fence.exchange_id, "token": token}).fetchone()
    if row is None:
        raise FencedOut
    since = (fence.exchange_id, fence.next_rank)
    return Written(SESSIONS.record_of(row), select(db, MESSAGES, "exchange_id = ? AND rank >= ? ORDER BY rank", since))


def _end(db: sqlite3.Connection, fence: Fence, end: ExchangeEnd, session: SessionRecord, token: str | None) -> None:
    ended = {
        "exchange_id": fence.exchange_id,
        "status": end.status,
        "ended_at": rfc3339(session.updated_at),
        "usage": json_text(end.usage),
        "error": json_text(end.error),
        "last_seq": end.last_seq,
        "token": token,
    }
    db.execute(_END_EXCHANGE, ended)
    if end.session_state is not None:
        kept = {"session_id": session.id, "rank": session.next_rank, "exchange_id": fence.exchange_id}
        put(db, "session_states", [{**kept, "state": end.session_state}])
        db.execute(_FORGET_STATES, {"session_id": session.id, "kept": STATES_KEPT})
    if end.kpi is not None:
        insert(db, KPI_RECORDS, [end.kpi], replace=True)
