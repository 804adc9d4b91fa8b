"""Exchanges in MongoDB: each write changes several documents, in an order in which nothing incomplete counts.

The session's document decides: one compare-and-set on it begins an exchange, counts a batch, or ends an exchange.
Writes before it don't count yet; any instance can repeat the writes after it:

- An exchange begins with its own document, whose `holds` and `asked_as` are unique: this admits it into its session,
  and detects a repeated ask. Beside it comes its first message (after it, in a new session: without the session nobody
  would find the message), then the session. If the session's write is missing, the
  document doesn't count; an instance that has seen it until its writer must have given up removes it. If it counts, the
  checkpoint of an interrupted exchange before it is dropped. Even before that this checkpoint is no longer returned,
  since its exchange is not the session's last one. An archived session is taken out of the archive in the
  session's write; its family follows, and stays there if the process dies just then.
- A checkpoint that comes with messages is written once they count. If the process dies in between, the exchange
  continues from the previous checkpoint, and repeats the steps since then.
- The end writes the state and the last messages, then the session, which keeps it as `ended`. Then come the KPIs, and
  last the exchange's own document, which gives up `holds`; nobody waits for these (see finishing). So before all of
  that is done, no other exchange begins, and no other end replaces `ended`. An instance that finds a session whose
  ended exchange still holds it repeats these writes.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from pymongo import ReturnDocument

from agentic_backend.errors import SessionBusy, SessionCompleted, SessionNotFound
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.base import Checkpoint, ExchangeEnd, Fence, FencedOut, KeptState, Written
from agentic_backend.stores.mongo.documents import (
    LARGEST_STATE,
    WITHOUT_STATE,
    Database,
    Document,
    asked_as,
    checkpoint_changes,
    document,
    end_document,
    held_by,
    is_too_large,
    record_in,
    session_in,
    state_document,
)
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.mongo.sessions.batches import count_batch
from agentic_backend.stores.mongo.sessions.beginnings import Admission, drop_checkpoint, open_in, open_with, refuse_busy
from agentic_backend.stores.mongo.sessions.finishing import Finishing
from agentic_backend.stores.mongo.sessions.messages import messages_between
from agentic_backend.stores.mongo.sessions.sessions import change_family
from agentic_backend.stores.mongo.sessions.settling import (
    HalfBegun,
    exchange_with,
    finish_ends,
    has_ended,
    settled_all,
)
from agentic_backend.stores.mongo.sessions.trail import put_trail, remove_orphans, remove_trail
from agentic_backend.stores.protocol.trail import TrailRecord, starts_background
from agentic_backend.stores.records import ExchangeRecord, MessageDraft, MessageRecord, SessionRecord, place
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.tables import EXCHANGES, SESSIONS


class Exchanges(Part):
    half_begun: HalfBegun
    finishing: Finishing

    @operation
    async def begin_exchange(
        self,
        database: Database,
        exchange: ExchangeRecord,
        opening: MessageDraft,
        new_session: SessionRecord | None = None,
        checkpoint: Checkpoint | None = None,
        trail: Sequence[TrailRecord] = (),
    ) -> Written:
        first_rank = exchange.first_rank if new_session is None else new_session.next_rank
        exchange = replace(exchange, first_rank=first_rank)
        kept = {} if checkpoint is None else checkpoint_changes(exchange.id, checkpoint)
        admission = Admission(database, document(EXCHANGES, exchange, **kept), self.half_begun)
        await self.finishing.of(exchange.session_id)
        async with self.turn(exchange.session_id):
            # Whatever a dead writer leaves is found by the exchange's document, but messages of a session that is there
            # give way without it.
            comes_first = new_session is not None or bool(trail)
            if comes_first:
                await admission.whenever_free()
            try:
                await put_trail(database, trail)
                if new_session is not None:
                    return await open_with(database, exchange, opening, new_session, self.now())
                beside = None if comes_first else admission
                written = await open_in(database, exchange, opening, self.now(), beside)
            except (SessionNotFound, SessionCompleted, SessionBusy, ValueError):
                # ValueError: the message's text can't be stored.
                await remove_trail(database, trail)
                await database["exchanges"].delete_one({"_id": exchange.id})
                raise
        if written.was_archived:
            await change_family(self, database, written.session, {"archived": False}, {"archived": True})
        return written

    @operation
    async def append(
        self,
        database: Database,
        fence: Fence,
        drafts: Sequence[MessageDraft],
        end: ExchangeEnd | None = None,
        checkpoint: Checkpoint | None = None,
        *,
        blocks: Sequence[int | None] = (),
        trail: Sequence[TrailRecord] = (),
        token: str | None = None,
    ) -> Written:
        at = self.now() if fence.after is None else max(self.now(), fence.after)
        messages = place(
            drafts,
            session_id=fence.session_id,
            exchange_id=fence.exchange_id,
            next_rank=fence.next_rank,
            at=at,
            blocks=blocks,
        )
        changes: dict[str, Any] = {"updated_at": rfc3339(at), "last_write": token}
        if starts_background(trail):
            changes["has_background"] = True
        can_go_on, state = False, None
        async with self.turn(fence.session_id):
            if end is not None:
                state = _state_of(fence, fence.next_rank + len(messages), end.session_state)
                can_go_on = end.status is ExchangeStatus.INTERRUPTED and await _has_state(database, fence, checkpoint)
                ended = end_document(fence.exchange_id, end, at, state, checkpoint, token, can_go_on=can_go_on)
                changes |= {"active_exchange_id": None, "active_owner": None, "ended": ended}
                if state is not None:
                    changes["state_id"] = state["_id"]
            beside = partial(_keep_state, database, state)
            counted = await count_batch(database, held_by(fence), messages, changes, trail=trail, beside=beside)
            if counted is None:
                await remove_orphans(database, fence.session_id, trail)
                await database["session_states"].delete_many({"_id": changes.get("state_id")})
                counted, messages = await _written(database, fence, token)
            if checkpoint is not None and (end is None or can_go_on):
                await _keep_checkpoint(database, fence, checkpoint)
            if has_ended(counted, fence.exchange_id):
                # Until it is finished, a late checkpoint could replace that of an interrupted exchange.
                if can_go_on or not self.finishing.accept(counted):
                    await finish_ends(database, [counted])
        return Written(record_in(SESSIONS, counted), messages)

    @operation
    async def reset_state(self, database: Database, session_id: str) -> SessionRecord | None:
        async with self.turn(session_id):
            while (found := session_in(await database["sessions"].find_one({"_id": session_id}))) is not None:
                await refuse_busy(database, found)
                as_read = {
                    "_id": found.id,
                    "next_rank": found.next_rank,
                    "active_exchange_id": found.active_exchange_id,
                }
                # Without `state_id`, no earlier state counts any more.
                reset = {"$set": {"reset_rank": found.next_rank, "state_id": None, "summary_id": None}}
                session = await database["sessions"].find_one_and_update(
                    as_read, reset, return_document=ReturnDocument.AFTER
                )
                if session is None:
                    continue
                await drop_checkpoint(database, session, found.next_rank)
                # Not those of an exchange that has begun meanwhile.
                earlier = {"session_id": session_id, "rank": {"$lte": found.next_rank}}
                await database["session_states"].delete_many(earlier)
                summed_up = {"session_id": session_id, "to_rank": {"$lte": found.next_rank}}
                await database["summaries"].delete_many(summed_up)
                return session_in(session)
            return None

    @operation
    async def get_exchange(self, database: Database, exchange_id: str) -> ExchangeRecord | None:
        return await exchange_with(database, {"_id": exchange_id})

    @operation
    async def find_exchange(self, database: Database, user_id: str, client_exchange_id: str) -> ExchangeRecord | None:
        return await exchange_with(database, {"asked_as": asked_as(user_id, client_exchange_id)})

    @operation
    async def running_exchanges(
        self,
        database: Database,
        *,
        not_of: Collection[str] = (),
        not_among: Collection[str] = (),
        limit: int = 1000,
    ) -> list[ExchangeRecord]:
        running: Document = {"status": ExchangeStatus.RUNNING.value}
        if not_of:
            running["owner"] = {"$nin": list(not_of)}
        if not_among:
            running["_id"] = {"$nin": list(not_among)}
        found = await database["exchanges"].find(running, WITHOUT_STATE).limit(limit).to_list(None)
        return await settled_all(database, found, self.half_begun)

    @operation
    async def running_among(self, database: Database, owner: str, exchange_ids: Collection[str]) -> set[str]:
        running = {"_id": {"$in": list(exchange_ids)}, "status": ExchangeStatus.RUNNING.value, "owner": owner}
        return {found["_id"] for found in await database["exchanges"].find(running, {"_id": 1}).to_list(None)}

    @operation
    async def statuses(self, database: Database, exchange_ids: Collection[str]) -> dict[str, ExchangeStatus]:
        named = {"_id": {"$in": list(exchange_ids)}}
        # First: one that is finished during the read shows it, or has not been read yet.
        ended = self.finishing.statuses
        rows = await database["exchanges"].find(named, {"status": 1}).to_list(None)
        return {row["_id"]: ExchangeStatus(ended.get(row["_id"]) or row["status"]) for row in rows}

    @operation
    async def client_exchange_ids(self, database: Database, exchange_ids: Collection[str]) -> dict[str, str]:
        named = {"_id": {"$in": list(exchange_ids)}, "client_exchange_id": {"$ne": None}}
        found = await database["exchanges"].find(named, {"client_exchange_id": 1}).to_list(None)
        return {exchange["_id"]: exchange["client_exchange_id"] for exchange in found}

    @operation
    async def expired_exchanges(self, database: Database, at: datetime, limit: int = 1000) -> list[ExchangeRecord]:
        # A null deadline never expires.
        expired = {"status": ExchangeStatus.AWAITING_HUMAN.value, "deadline": {"$lt": rfc3339(at)}}
        due = database["exchanges"].find(expired, WITHOUT_STATE).sort("deadline", 1).limit(limit)
        return await settled_all(database, await due.to_list(None), self.half_begun)


async def _written(database: Database, fence: Fence, token: str | None) -> tuple[Document, list[MessageRecord]]:
    """The session and the messages of the last write, if it has this token. Raises FencedOut if it has not.

    The session is read first: once it has another exchange's token, the exchange's document has the token of its end.
    """
    session = await database["sessions"].find_one({"_id": fence.session_id})
    exchange = await database["exchanges"].find_one({"_id": fence.exchange_id}, {"last_write": 1})
    if token is None or exchange is None or session_in(session) is None:
        raise FencedOut
    assert session is not None
    if token not in (session.get("last_write"), exchange.get("last_write")):
        raise FencedOut
    return session, await messages_between(database, fence.exchange_id, fence.next_rank, session["next_rank"])


async def _has_state(database: Database, fence: Fence, checkpoint: Checkpoint | None) -> bool:
    """Whether a state to continue from exists: that of `checkpoint` or, if it is None or too large, an earlier one."""
    if checkpoint is not None and (checkpoint.state is None or len(checkpoint.state) <= LARGEST_STATE):
        return checkpoint.state is not None
    kept = {"_id": fence.exchange_id, "checkpoint": {"$ne": None}}
    return await database["exchanges"].find_one(kept, {"_id": 1}) is not None


async def _keep_state(database: Database, state: Document | None) -> bool:
    if state is not None:
        await database["session_states"].insert_one(state)
    return True


async def _keep_checkpoint(database: Database, fence: Fence, checkpoint: Checkpoint) -> None:
    """Store the checkpoint, unless another instance has finished the exchange's end: the next one may run already."""
    held = {"_id": fence.exchange_id, "owner": fence.owner, "status": ExchangeStatus.RUNNING.value}
    if changes := checkpoint_changes(fence.exchange_id, checkpoint):
        await database["exchanges"].update_one(held, {"$set": changes})


def _state_of(fence: Fence, rank: int, state: bytes | None) -> Document | None:
    """The document of the state; None if there is none, or it is too large: then the last one stays."""
    if state is None or is_too_large("a session's state", fence.exchange_id, state):
        return None
    return state_document(fence.session_id, KeptState(fence.exchange_id, rank, state), counts=False)
