"""The ownership of exchanges in SQLite: pauses, decisions, fences and checkpoints."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from agentic_backend.errors import ApprovalNotFound
from agentic_backend.protocol.seq import next_epoch
from agentic_backend.stores.base import Checkpoint, Fence, FencedOut, Pause
from agentic_backend.stores.protocol.trail import TrailRecord
from agentic_backend.stores.records import CheckpointRecord, ExchangeRecord, HumanDecision
from agentic_backend.stores.rows import json_text, rfc3339
from agentic_backend.stores.sqlite.operation_base import Part, count, reads, writes
from agentic_backend.stores.sqlite.sessions.branches import count_below
from agentic_backend.stores.sqlite.sessions.exchanges import HELD, fenced, keep_checkpoint
from agentic_backend.stores.sqlite.sessions.sessions import session_with
from agentic_backend.stores.sqlite.sessions.trail import put_trail

_SET_WAITING = f"""
    UPDATE exchanges SET status = 'awaiting_human', owner = NULL, deadline = :deadline, partial = NULL,
        pending = :pending, usage = :usage, last_seq = :last_seq, ran_ms = :ran_ms, first_token_ms = :first_token_ms,
        last_write = :token
    WHERE id = :exchange_id AND status = 'running' AND EXISTS (SELECT 1 FROM sessions WHERE {HELD})
    RETURNING id
"""

# Succeeds only if the exchange still has the pause and the decisions that the caller has read.
_DECIDE = """
    UPDATE exchanges SET decisions = :decisions, status = iif(:owner IS NULL, status, 'running'),
        deadline = iif(:owner IS NULL, deadline, NULL), owner = :owner, last_write = :token,
        last_seq = iif(:owner IS NULL, last_seq, :claimed_seq), policy = :policy
    WHERE id = :exchange_id AND status = 'awaiting_human' AND last_seq = :last_seq AND decisions IS :decided
    RETURNING id
"""

_SET_OWNER = "UPDATE sessions SET active_owner = :owner WHERE id = :session_id AND active_exchange_id = :exchange_id"

_IS_LAST_WRITE = "SELECT 1 FROM exchanges WHERE id = ? AND last_write = ?"

_CHECKPOINT = "SELECT checkpoint_record, checkpoint FROM exchanges WHERE id = ? AND checkpoint IS NOT NULL"

_CAN_GO_ON = "SELECT 1 FROM exchanges WHERE id = ? AND checkpoint IS NOT NULL"

_FENCE = """
    SELECT active_exchange_id, next_rank, active_owner, updated_at FROM sessions
    WHERE id = ? AND active_exchange_id IS NOT NULL
"""


class Claims(Part):
    @writes
    def set_waiting(self, db: sqlite3.Connection, fence: Fence, pause: Pause, token: str | None = None) -> None:
        waiting = {
            "token": token,
            "pending": json_text(pause.pending),
            "deadline": None if pause.deadline is None else rfc3339(pause.deadline),
            "usage": json_text(pause.usage),
            "last_seq": pause.last_seq,
            "ran_ms": pause.ran_ms,
            "first_token_ms": pause.first_token_ms,
        }
        if db.execute(_SET_WAITING, fenced(fence) | waiting).fetchone() is not None:
            keep_checkpoint(db, fence.exchange_id, pause.checkpoint)
        elif not _is_last_write(db, fence.exchange_id, token):
            raise FencedOut

    @writes
    def decide(
        self,
        db: sqlite3.Connection,
        waiting: ExchangeRecord,
        decisions: Sequence[HumanDecision],
        owner: str | None = None,
        token: str | None = None,
        *,
        trail: Sequence[TrailRecord] = (),
    ) -> None:
        claim = {
            "exchange_id": waiting.id,
            "session_id": waiting.session_id,
            "last_seq": waiting.last_seq,
            "decided": json_text(waiting.decisions),
            "decisions": json_text([*waiting.decisions, *decisions]),
            "policy": json_text(waiting.policy),
            "owner": owner,
            "claimed_seq": next_epoch(waiting.last_seq),
            "token": token,
        }
        if db.execute(_DECIDE, claim).fetchone() is None:
            if not _is_last_write(db, waiting.id, token):
                raise ApprovalNotFound
            return
        put_trail(db, trail)
        if owner is not None:
            db.execute(_SET_OWNER, claim)

    @reads
    def fence(self, db: sqlite3.Connection, session_id: str) -> Fence | None:
        row = db.execute(_FENCE, (session_id,)).fetchone()
        if row is None:
            return None
        after = datetime.fromisoformat(row["updated_at"])
        return Fence(session_id, row["active_exchange_id"], row["next_rank"], row["active_owner"], after)

    @reads
    def checkpoint(self, db: sqlite3.Connection, exchange_id: str) -> Checkpoint | None:
        row = db.execute(_CHECKPOINT, (exchange_id,)).fetchone()
        if row is None:
            return None
        return Checkpoint(CheckpointRecord.model_validate_json(row["checkpoint_record"]), row["checkpoint"])

    @reads
    def can_go_on(self, db: sqlite3.Connection, exchange_id: str) -> bool:
        return db.execute(_CAN_GO_ON, (exchange_id,)).fetchone() is not None

    @reads
    def count_waiting(self, db: sqlite3.Connection, user_id: str) -> int:
        return count(db, "exchanges WHERE user_id = ? AND status = 'awaiting_human'", [user_id])

    @reads
    def count_asked(self, db: sqlite3.Connection, session_id: str, below_rank: int) -> int:
        session = session_with(db, session_id)
        return 0 if session is None else count_below(db, session, below_rank, "resumes IS NULL")


def _is_last_write(db: sqlite3.Connection, exchange_id: str, token: str | None) -> bool:
    return db.execute(_IS_LAST_WRITE, (exchange_id, token)).fetchone() is not None
