"""The ownership of exchanges in MongoDB: pauses, decisions, fences and checkpoints.

The exchange's document holds its status and its owner; the session's holds the owner that may write. One
compare-and-set on the exchange's document decides which instance claims a waiting exchange, and counts each decision
once:

- A pause ends its owner's run. The session keeps that owner, which has nothing left to write, until the next claim.
- A claim writes the exchange's document first, with the decisions and the owner, then the session. If the process dies
  between the two, the exchange has a dead owner, and the session still the previous one; `fence` returns that one, so
  any instance that finds the owner dead can end the exchange. The decisions are kept.
- No other claim can come in between, since the exchange no longer waits. Only an end can, once the owner is taken for
  dead; the session then no longer names the exchange, and the claim is refused.
- A pause and a claim leave their token in the exchange's document, by which a repeated one is recognized.
"""

from collections.abc import Sequence
from datetime import datetime

from agentic_backend.errors import ApprovalNotFound, Internal
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.seq import next_epoch
from agentic_backend.stores.base import Checkpoint, Fence, FencedOut, Pause
from agentic_backend.stores.lineage import spans_of
from agentic_backend.stores.mongo.documents import Database, Document, checkpoint_changes, held_by, record_in
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.mongo.sessions.messages import within
from agentic_backend.stores.mongo.sessions.sessions import session_with
from agentic_backend.stores.mongo.sessions.settling import current_document
from agentic_backend.stores.mongo.sessions.trail import put_trail, remove_orphans
from agentic_backend.stores.protocol.trail import TrailRecord
from agentic_backend.stores.records import CheckpointRecord, ExchangeRecord, HumanDecision
from agentic_backend.stores.rows import json_text, rfc3339
from agentic_backend.stores.tables import EXCHANGES


class Claims(Part):
    @operation
    async def set_waiting(self, database: Database, fence: Fence, pause: Pause, token: str | None = None) -> None:
        # If the exchange ends in between, its end overwrites this.
        kept = checkpoint_changes(fence.exchange_id, pause.checkpoint)
        if not kept:
            raise Internal("The agent can't wait for a person: its state is too large to be kept.")
        waiting = {
            "status": ExchangeStatus.AWAITING_HUMAN.value,
            "owner": None,
            "deadline": None if pause.deadline is None else rfc3339(pause.deadline),
            "partial": None,
            "pending": json_text(pause.pending),
            "usage": json_text(pause.usage),
            "last_seq": pause.last_seq,
            "ran_ms": pause.ran_ms,
            "first_token_ms": pause.first_token_ms,
            "last_write": token,
            **kept,
        }
        async with self.turn(fence.session_id):
            if await database["sessions"].find_one(held_by(fence), {"_id": 1}) is None:
                raise FencedOut
            running = {"_id": fence.exchange_id, **_run_by(fence.owner)}
            if (await database["exchanges"].update_one(running, {"$set": waiting})).matched_count:
                return
            if not await _is_last_write(database, fence.exchange_id, token):
                raise FencedOut

    @operation
    async def decide(
        self,
        database: Database,
        waiting: ExchangeRecord,
        decisions: Sequence[HumanDecision],
        owner: str | None = None,
        token: str | None = None,
        *,
        trail: Sequence[TrailRecord] = (),
    ) -> None:
        undecided = {
            "_id": waiting.id,
            "status": ExchangeStatus.AWAITING_HUMAN.value,
            "last_seq": waiting.last_seq,
            "decisions": json_text(waiting.decisions),
        }
        changes: Document = {
            "decisions": json_text([*waiting.decisions, *decisions]),
            "policy": json_text(waiting.policy),
            "last_write": token,
        }
        if owner is not None:
            changes |= _run_by(owner) | {"deadline": None, "last_seq": next_epoch(waiting.last_seq)}
        active = {"_id": waiting.session_id, "active_exchange_id": waiting.id}
        async with self.turn(waiting.session_id):
            if await database["sessions"].find_one(active, {"_id": 1}) is None:
                # The exchange has ended; only its own document doesn't show that yet.
                raise ApprovalNotFound
            await put_trail(database, trail)
            try:
                decided = (await database["exchanges"].update_one(undecided, {"$set": changes})).matched_count
                if not decided and not await _is_last_write(database, waiting.id, token):
                    raise ApprovalNotFound
                if owner is not None:
                    claimed = await database["sessions"].update_one(active, {"$set": {"active_owner": owner}})
                    if claimed.matched_count == 0:
                        raise ApprovalNotFound
            finally:
                # The session may have been deleted in between, and its records with it.
                await remove_orphans(database, waiting.session_id, trail)

    @operation
    async def fence(self, database: Database, session_id: str) -> Fence | None:
        found = await database["sessions"].find_one({"_id": session_id})
        if found is None or found["active_exchange_id"] is None:
            return None
        after = datetime.fromisoformat(found["updated_at"])
        return Fence(session_id, found["active_exchange_id"], found["next_rank"], found.get("active_owner"), after)

    @operation
    async def checkpoint(self, database: Database, exchange_id: str) -> Checkpoint | None:
        record = await _checkpoint_record(database, exchange_id)
        found = await database["exchanges"].find_one({"_id": exchange_id}, {"checkpoint": 1}) if record else None
        if record is None or found is None or found["checkpoint"] is None:
            return None
        return Checkpoint(record, bytes(found["checkpoint"]))

    @operation
    async def can_go_on(self, database: Database, exchange_id: str) -> bool:
        if await _checkpoint_record(database, exchange_id) is None:
            return False
        with_state = {"_id": exchange_id, "checkpoint": {"$ne": None}}
        return await database["exchanges"].find_one(with_state, {"_id": 1}) is not None

    @operation
    async def count_waiting(self, database: Database, user_id: str) -> int:
        waiting = {"user_id": user_id, "status": ExchangeStatus.AWAITING_HUMAN.value}
        return await database["exchanges"].count_documents(waiting)

    @operation
    async def count_asked(self, database: Database, session_id: str, below_rank: int) -> int:
        if (session := await session_with(database, session_id)) is None:
            return 0
        asked = within(spans_of(session), 0, below_rank, "first_rank") | {"resumes": None}
        return await database["exchanges"].count_documents(asked)


async def _checkpoint_record(database: Database, exchange_id: str) -> CheckpointRecord | None:
    """The record of the exchange's last checkpoint, if the exchange may continue from it."""
    current = await current_document(database, {"_id": exchange_id})
    if current is None or "checkpoint" in current:
        return None
    record = record_in(EXCHANGES, current)
    if record.status.ended and not await _can_be_resumed(database, record):
        return None
    return record.checkpoint


async def _can_be_resumed(database: Database, ended: ExchangeRecord) -> bool:
    """Whether it was interrupted and no other exchange follows, which may not have dropped its state yet."""
    session = await session_with(database, ended.session_id)
    if session is None or ended.status is not ExchangeStatus.INTERRUPTED:
        return False
    later = {"session_id": session.id, "first_rank": {"$gt": ended.first_rank, "$lt": session.next_rank}}
    return await database["exchanges"].find_one(later, {"_id": 1}) is None


async def _is_last_write(database: Database, exchange_id: str, token: str | None) -> bool:
    written = {"_id": exchange_id, "last_write": token}
    return token is not None and await database["exchanges"].find_one(written, {"_id": 1}) is not None


def _run_by(owner: str | None) -> Document:
    return {"owner": owner, "status": ExchangeStatus.RUNNING.value}
