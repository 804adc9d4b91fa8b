"""Exchanges in MongoDB: each write changes several documents, in an order in which nothing incomplete counts.

The session's document decides: one compare-and-set on it begins an exchange, counts a batch, or ends an exchange.
Writes before it don't count yet; any instance can repeat the writes after it:

- An exchange begins with its own document, whose `holds` and `asked_as` are unique: this admits it into its session,
  and detects a repeated ask. Then comes its first message, then the session. If the session's write is missing, the
  document doesn't count; an instance that has seen it until its writer must have given up removes it. If it counts, the
  checkpoint of an interrupted exchange before it is dropped. Even before that this checkpoint is no longer returned,
  since its exchange is not the session's last one. An archived session is taken out of the archive in the
  session's write; its family follows, and stays there if the process dies just then.
- A checkpoint that comes with messages is written once they count. If the process dies in between, the exchange
  continues from the previous checkpoint, and repeats the steps since then.
- The end writes the state and the last messages, then the session, which keeps it as `ended`. Then come the KPIs, and
  last the exchange's own document, which gives up `holds`. So before all of that is done, no other exchange begins, and
  no other end replaces `ended`. An instance that finds a session whose ended exchange still holds it repeats these
  writes.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pymongo import ReturnDocument

from agentic_backend.errors import SessionBusy, SessionCompleted, SessionNotFound
from agentic_backend.protocol.messages import ExchangeStatus, SessionState
from agentic_backend.stores.base import AlreadyAsked, Checkpoint, ExchangeEnd, Fence, FencedOut, KeptState, Written
from agentic_backend.stores.mongo.batches import count_batch
from agentic_backend.stores.mongo.documents import (
    LARGEST_STATE,
    NOTHING_TO_GO_ON_FROM,
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
from agentic_backend.stores.mongo.driver import inserted
from agentic_backend.stores.mongo.messages import messages_between
from agentic_backend.stores.mongo.operations import Part, operation
from agentic_backend.stores.mongo.sessions import change_family, session_with
from agentic_backend.stores.mongo.settling import (
    HalfBegun,
    exchange_with,
    finish_end,
    has_ended,
    settled,
    settled_all,
)
from agentic_backend.stores.mongo.trail import put_trail, remove_orphans, remove_trail
from agentic_backend.stores.records import ExchangeRecord, MessageDraft, MessageRecord, SessionRecord, place
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.tables import EXCHANGES, MESSAGES, SESSIONS
from agentic_backend.stores.trail import TrailRecord, starts_background

# The interval at which a writer checks whether another writer has begun its exchange.
_LOOK_S = 0.05


class Exchanges(Part):
    half_begun: HalfBegun

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
        async with self.turn(exchange.session_id):
            await _admit(database, document(EXCHANGES, exchange, **kept), self.half_begun)
            try:
                await put_trail(database, trail)
                if new_session is not None:
                    return await _open_with(database, exchange, opening, new_session, self.now())
                written, was_archived = await _open_in(database, exchange, opening, self.now())
            except (SessionNotFound, SessionCompleted, SessionBusy, ValueError):
                # ValueError: the message's text can't be stored.
                await remove_trail(database, trail)
                await database["exchanges"].delete_one({"_id": exchange.id})
                raise
        if was_archived:
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
        can_go_on = False
        async with self.turn(fence.session_id):
            if end is not None:
                state = await _keep_state(database, fence, fence.next_rank + len(messages), end.session_state)
                can_go_on = end.status is ExchangeStatus.INTERRUPTED and await _has_state(database, fence, checkpoint)
                ended = end_document(fence.exchange_id, end, at, state, checkpoint, token, can_go_on=can_go_on)
                changes |= {"active_exchange_id": None, "active_owner": None, "ended": ended}
                if state is not None:
                    changes["state_id"] = state["_id"]
            counted = await count_batch(database, held_by(fence), messages, changes, trail=trail)
            if counted is None:
                await remove_orphans(database, fence.session_id, trail)
                await database["session_states"].delete_many({"_id": changes.get("state_id")})
                counted, messages = await _written(database, fence, token)
            if checkpoint is not None and (end is None or can_go_on):
                await _keep_checkpoint(database, fence, checkpoint)
            if has_ended(counted, fence.exchange_id):
                await finish_end(database, counted)
        return Written(record_in(SESSIONS, counted), messages)

    @operation
    async def reset_state(self, database: Database, session_id: str) -> SessionRecord | None:
        async with self.turn(session_id):
            while (found := session_in(await database["sessions"].find_one({"_id": session_id}))) is not None:
                await _refuse_busy(database, found)
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
                await _drop_checkpoint(database, session, found.next_rank)
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
        rows = await database["exchanges"].find(named, {"status": 1}).to_list(None)
        return {row["_id"]: ExchangeStatus(row["status"]) for row in rows}

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


async def _admit(database: Database, exchange: Document, half_begun: HalfBegun) -> None:
    """Insert the exchange's document, the only one with its `asked_as` and its `holds`.

    Raises AlreadyAsked, SessionNotFound, SessionCompleted, SessionBusy.
    """
    while not await inserted(database["exchanges"].insert_one(exchange)):
        asked = await database["exchanges"].find_one({"asked_as": exchange["asked_as"]}, WITHOUT_STATE)
        other = asked or await database["exchanges"].find_one({"holds": exchange["holds"]}, WITHOUT_STATE)
        if other is None:
            continue
        session = await database["sessions"].find_one({"_id": other["session_id"]})
        met = await settled(database, other, session, half_begun)
        if met is None:
            # It is about to begin, or never will: look again.
            await asyncio.sleep(_LOOK_S)
        elif asked is not None:
            raise AlreadyAsked(met.id)
        elif not met.status.ended:
            await _open_session(database, record_in(EXCHANGES, exchange))


async def _open_session(database: Database, exchange: ExchangeRecord) -> SessionRecord:
    """The session, if the exchange may begin in it. Raises SessionNotFound, SessionCompleted, SessionBusy."""
    session = await session_with(database, exchange.session_id)
    if session is None or session.user_id != exchange.user_id:
        raise SessionNotFound
    if session.state is SessionState.COMPLETED:
        raise SessionCompleted
    await _refuse_busy(database, session)
    return session


async def _refuse_busy(database: Database, session: SessionRecord) -> None:
    """Raises SessionBusy if the session's active exchange exists."""
    active = {"_id": session.active_exchange_id}
    if session.active_exchange_id is not None and await database["exchanges"].find_one(active, {"_id": 1}) is not None:
        raise SessionBusy


async def _open_in(
    database: Database, exchange: ExchangeRecord, opening: MessageDraft, now: datetime
) -> tuple[Written, bool]:
    """Insert the exchange's first message, and put the exchange into its session; and whether that was archived."""
    held: Document = {
        "_id": exchange.session_id,
        "next_rank": exchange.first_rank,
        "user_id": exchange.user_id,
        "state": SessionState.ACTIVE.value,
        "active_exchange_id": None,
        "archived": {"$ne": True},
    }
    # The caller has read the session before, so `started_at` is no earlier than its `updated_at`.
    at = max(now, exchange.started_at)
    while True:
        messages = place(
            [opening],
            session_id=exchange.session_id,
            exchange_id=exchange.id,
            next_rank=held["next_rank"],
            at=at,
        )
        changes = {
            "active_exchange_id": exchange.id,
            "active_owner": exchange.owner,
            "updated_at": rfc3339(at),
            "archived": False,
        }
        counted = await count_batch(database, held, messages, changes, begins=True)
        if counted is not None and (session := session_in(counted)) is not None:
            await _drop_checkpoint(database, counted, held["next_rank"])
            return Written(session, messages), held["archived"] is True
        found = await _open_session(database, exchange)
        # The caller expected another rank, the session's active exchange doesn't exist, or the session is archived.
        archived = True if found.archived else {"$ne": True}
        held |= {"next_rank": found.next_rank, "active_exchange_id": found.active_exchange_id, "archived": archived}
        at = max(at, found.updated_at)
        begins = {"first_rank": found.next_rank, "started_at": rfc3339(max(exchange.started_at, found.updated_at))}
        await database["exchanges"].update_one({"_id": exchange.id}, {"$set": begins})


async def _open_with(
    database: Database, exchange: ExchangeRecord, opening: MessageDraft, new_session: SessionRecord, now: datetime
) -> Written:
    """Insert the exchange's first message, then a session with the exchange in it."""
    at = max(now, exchange.started_at, new_session.updated_at)
    messages = place(
        [opening], session_id=new_session.id, exchange_id=exchange.id, next_rank=new_session.next_rank, at=at
    )
    session = replace(
        new_session,
        active_exchange_id=exchange.id,
        active_owner=exchange.owner,
        updated_at=at,
        next_rank=new_session.next_rank + 1,
        message_count=new_session.message_count + 1,
        turn_count=new_session.turn_count + 1,
    )
    await database["messages"].insert_many([document(MESSAGES, message, batch=exchange.id) for message in messages])
    await database["sessions"].insert_one(document(SESSIONS, session))
    return Written(session, messages)


async def _has_state(database: Database, fence: Fence, checkpoint: Checkpoint | None) -> bool:
    """Whether a state to continue from exists: that of `checkpoint` or, if it is None or too large, an earlier one."""
    if checkpoint is not None and (checkpoint.state is None or len(checkpoint.state) <= LARGEST_STATE):
        return checkpoint.state is not None
    kept = {"_id": fence.exchange_id, "checkpoint": {"$ne": None}}
    return await database["exchanges"].find_one(kept, {"_id": 1}) is not None


async def _keep_checkpoint(database: Database, fence: Fence, checkpoint: Checkpoint) -> None:
    """Store the checkpoint, unless another instance has finished the exchange's end: the next one may run already."""
    held = {"_id": fence.exchange_id, "owner": fence.owner, "status": ExchangeStatus.RUNNING.value}
    if changes := checkpoint_changes(fence.exchange_id, checkpoint):
        await database["exchanges"].update_one(held, {"$set": changes})


async def _drop_checkpoint(database: Database, session: Document, first_rank: int) -> None:
    """Drop the checkpoint of the interrupted exchange before the session's active one, which begins at `first_rank`."""
    ended = session["ended"]
    if ended is not None:
        before, status = ended["exchange_id"], ended["changes"]["status"]
    elif (found := await _exchange_before(database, session["_id"], first_rank)) is not None:
        before, status = found["_id"], found["status"]
    else:
        return
    if status == ExchangeStatus.INTERRUPTED:
        await database["exchanges"].update_one({"_id": before}, {"$set": NOTHING_TO_GO_ON_FROM})


async def _exchange_before(database: Database, session_id: str, first_rank: int) -> Document | None:
    """The exchange before the one at `first_rank`, for a transferred session, which doesn't know its last end."""
    if first_rank == 0:
        return None
    earlier = {"session_id": session_id, "first_rank": {"$lt": first_rank}}
    found = database["exchanges"].find(earlier, {"status": 1}).sort("first_rank", -1).limit(1)
    return next(iter(await found.to_list(None)), None)


async def _keep_state(database: Database, fence: Fence, rank: int, state: bytes | None) -> Document | None:
    """Store the state, and return its document; None if there is none, or it is too large: then the last one stays."""
    if state is None or is_too_large("a session's state", fence.exchange_id, state):
        return None
    kept = state_document(fence.session_id, KeptState(fence.exchange_id, rank, state), counts=False)
    await database["session_states"].insert_one(kept)
    return kept
