"""What MongoStore writes: each function several documents, in an order that leaves nothing half done that counts.

The session's document decides; one compare-and-set on it is the moment at which an exchange has begun, a batch counts,
or an exchange has ended. What comes before it doesn't count yet; what comes after it can be done again by anybody:

- An exchange begins with its own document, whose `holds` and `asked_as` only one exchange can have: that admits it
  into its session, and tells an ask that was sent before. Then comes its first message, then the session. Where the
  session doesn't follow, the document doesn't count; whoever has met it until its writer must have given up removes it.
  Where it counts, what an interrupted exchange before it could go on from goes; until then, too, that one isn't the
  session's last any more, which is what its checkpoint is given for.
- A checkpoint that comes with messages is written once they count. When the process dies in between, the exchange goes
  on from the checkpoint before, and does again what came since.
- It ends with its state and its last messages, then the session, which keeps how it `ended`. Then its KPIs, and last
  its own document, which gives up `holds`; so no other exchange begins, and no other end takes the place of `ended`,
  before all of that is done. Who meets a session that has ended an exchange that still holds it does it again.
- A session goes with its user first, so that it counts no more and nothing is added; then what belongs to it; then its
  document. What is left when the process dies is removed at the next start.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from pymongo import ReturnDocument

from agentic_backend.errors import SessionBusy, SessionCompleted, SessionNotFound
from agentic_backend.protocol.messages import (
    ChatMessage,
    ExchangeStatus,
    MessageDraft,
    Session,
    SessionState,
    place,
)
from agentic_backend.stores.base import AlreadyAsked, Checkpoint, ExchangeEnd, Fence, FencedOut, Written
from agentic_backend.stores.mongo_batches import count_batch
from agentic_backend.stores.mongo_documents import (
    UNENDED,
    WITHOUT_STATE,
    Database,
    Document,
    checkpoint_changes,
    end_document,
    exchange_document,
    exchange_in,
    held_by,
    kpi_document,
    message_document,
    session_document,
    session_in,
)
from agentic_backend.stores.mongo_driver import inserted
from agentic_backend.stores.mongo_half_begun import HalfBegun
from agentic_backend.stores.mongo_queries import exchange_messages, has_ended
from agentic_backend.stores.records import ExchangeRecord, KpiRecord
from agentic_backend.stores.rows import folded, rfc3339

# How often a writer looks whether another one, which is about to begin an exchange, has done so.
_LOOK_S = 0.05


async def create_session(database: Database, session: Session) -> None:
    await database["sessions"].insert_one(session_document(session))


async def rename_session(database: Database, session_id: str, title: str, only_if: str | None) -> Session | None:
    """A new title is no activity: `updated_at`, and so the session's place in the list, stays."""
    conditions = {"_id": session_id} if only_if is None else {"_id": session_id, "title": only_if}
    return await _set_session(database, conditions, {"title": title, "search_title": folded(title)})


async def complete_session(database: Database, session_id: str, at: datetime) -> Session | None:
    active = {"_id": session_id, "state": SessionState.ACTIVE.value}
    while (session := await database["sessions"].find_one(active)) is not None:
        latest = max(rfc3339(at), session["updated_at"])
        changes = {"state": SessionState.COMPLETED.value, "ended_at": latest, "updated_at": latest}
        as_read = {**active, "updated_at": session["updated_at"]}
        if (completed := await _set_session(database, as_read, changes)) is not None:
            return completed
    return session_in(await database["sessions"].find_one({"_id": session_id}))


async def delete_session(database: Database, session_id: str) -> None:
    goes = {"user_id": None, "state": SessionState.COMPLETED.value, "active_exchange_id": None}
    await database["sessions"].update_one({"_id": session_id}, {"$set": goes})
    for collection in ("messages", "session_states", "exchanges"):
        await database[collection].delete_many({"session_id": session_id})
    await database["sessions"].delete_one({"_id": session_id})


async def finish_deletions(database: Database) -> None:
    """Remove what a process that died left of sessions that it was deleting."""
    for session in await database["sessions"].find({"user_id": None}, {"_id": 1}).to_list(None):
        await delete_session(database, session["_id"])


async def begin_exchange(
    database: Database,
    exchange: ExchangeRecord,
    opening: MessageDraft,
    new_session: Session | None,
    checkpoint: Checkpoint | None,
    half_begun: HalfBegun,
    now: datetime,
) -> Written:
    first_rank = exchange.first_rank if new_session is None else new_session.next_rank
    exchange = exchange.model_copy(update={"first_rank": first_rank})
    await _admit(database, exchange_document(exchange, checkpoint), half_begun)
    try:
        if new_session is not None:
            return await _open_with(database, exchange, opening, new_session, now)
        return await _open_in(database, exchange, opening, now)
    except (SessionNotFound, SessionCompleted, SessionBusy, ValueError):
        # ValueError: its text can't be stored.
        await database["exchanges"].delete_one({"_id": exchange.id})
        raise


async def append(
    database: Database,
    fence: Fence,
    drafts: Sequence[MessageDraft],
    end: ExchangeEnd | None,
    checkpoint: Checkpoint | None,
    blocks: Sequence[int | None],
    token: str | None,
    now: datetime,
) -> Written:
    at = now if fence.after is None else max(now, fence.after)
    messages = place(
        list(drafts), session_id=fence.session_id, exchange_id=fence.exchange_id, next_rank=fence.next_rank, at=at
    )
    changes: dict[str, Any] = {"updated_at": rfc3339(at), "last_write": token}
    if end is not None:
        state = await _keep_state(database, fence, end.session_state)
        ended = end_document(fence.exchange_id, end, at, state, checkpoint, token)
        changes |= {"active_exchange_id": None, "active_owner": None, "ended": ended}
        if state is not None:
            changes["state_id"] = state["_id"]
    document = await count_batch(database, held_by(fence), messages, changes, blocks)
    if document is None:
        await database["session_states"].delete_many({"_id": changes.get("state_id")})
        document, messages = await _written(database, fence, token)
    if checkpoint is not None and (end is None or end.status is ExchangeStatus.INTERRUPTED):
        await _keep_checkpoint(database, fence, checkpoint)
    if has_ended(document, fence.exchange_id):
        await _finish_end(database, document)
    session = session_in(document)
    assert session is not None
    return Written(session, messages)


async def _written(database: Database, fence: Fence, token: str | None) -> tuple[Document, list[ChatMessage]]:
    """The session, and what the write of this token made, where it is the last one. Raises FencedOut where it is not.

    The session is read first: once it has another exchange's token, the one of the end is in its exchange's document.
    """
    session = await database["sessions"].find_one({"_id": fence.session_id})
    exchange = await database["exchanges"].find_one({"_id": fence.exchange_id}, {"last_write": 1})
    if token is None or exchange is None or session_in(session) is None:
        raise FencedOut
    assert session is not None
    if token not in (session.get("last_write"), exchange.get("last_write")):
        raise FencedOut
    messages = await exchange_messages(database, fence.exchange_id, None)
    return session, [message for message in messages if message.rank >= fence.next_rank]


async def record_kpi(database: Database, record: KpiRecord) -> None:
    """Recorded again, after an answer that got lost, it replaces itself."""
    document = kpi_document(record)
    await database["kpi_records"].replace_one({"_id": document["_id"]}, document, upsert=True)


async def prove_write(database: Database) -> None:
    """Change a document that is there for this alone."""
    proof = {"$set": {"proof": uuid4().hex}}
    await database["write_proofs"].update_one({"_id": "proof"}, proof, upsert=True)


async def settled(database: Database, exchanges: Sequence[Document], half_begun: HalfBegun) -> list[ExchangeRecord]:
    """Of exchanges that by themselves have not ended, those that count; what is half done is finished.

    Whatever died half way shows up here: its exchange's document still says that it runs, for an owner who is dead.
    """
    if not exchanges:
        return []
    ids = [exchange["session_id"] for exchange in exchanges]
    found = await database["sessions"].find({"_id": {"$in": ids}}).to_list(None)
    sessions = {session["_id"]: session for session in found}
    records = [
        await _settled(database, exchange, sessions.get(exchange["session_id"]), half_begun) for exchange in exchanges
    ]
    return [record for record in records if record is not None and not record.status.ended]


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
        met = await _settled(database, other, session, half_begun)
        if met is None:
            # It is about to begin, or never will: the next look tells.
            await asyncio.sleep(_LOOK_S)
        elif asked is not None:
            raise AlreadyAsked(met.id)
        elif not met.status.ended:
            await _open_session(database, exchange_in(exchange))


async def _open_session(database: Database, exchange: ExchangeRecord) -> Session:
    """The session, where the exchange may begin in it. Raises SessionNotFound, SessionCompleted, SessionBusy."""
    session = session_in(await database["sessions"].find_one({"_id": exchange.session_id}))
    if session is None or session.user_id != exchange.user_id:
        raise SessionNotFound
    if session.state is SessionState.COMPLETED:
        raise SessionCompleted
    active = {"_id": session.active_exchange_id}
    if session.active_exchange_id is not None and await database["exchanges"].find_one(active, {"_id": 1}) is not None:
        raise SessionBusy
    return session


async def _open_in(database: Database, exchange: ExchangeRecord, opening: MessageDraft, now: datetime) -> Written:
    """Insert the exchange's first message, and put the exchange into its session."""
    held: Document = {
        "_id": exchange.session_id,
        "next_rank": exchange.first_rank,
        "user_id": exchange.user_id,
        "state": SessionState.ACTIVE.value,
        "active_exchange_id": None,
    }
    # The asker has read the session, and so began no earlier than what stands there.
    at = max(now, exchange.started_at)
    while True:
        messages = place(
            [opening],
            session_id=exchange.session_id,
            exchange_id=exchange.id,
            next_rank=held["next_rank"],
            at=at,
        )
        changes = {"active_exchange_id": exchange.id, "active_owner": exchange.owner, "updated_at": rfc3339(at)}
        document = await count_batch(database, held, messages, changes)
        if document is not None and (session := session_in(document)) is not None:
            await _drop_checkpoint(database, document)
            return Written(session, messages)
        found = await _open_session(database, exchange)
        # The rank that the asker believed in isn't the next one; or who was active is no exchange that there is.
        held |= {"next_rank": found.next_rank, "active_exchange_id": found.active_exchange_id}
        at = max(at, found.updated_at)
        begins = {"first_rank": found.next_rank, "started_at": rfc3339(max(exchange.started_at, found.updated_at))}
        await database["exchanges"].update_one({"_id": exchange.id}, {"$set": begins})


async def _open_with(
    database: Database, exchange: ExchangeRecord, opening: MessageDraft, new_session: Session, now: datetime
) -> Written:
    """Insert the exchange's first message, then a session with the exchange in it."""
    at = max(now, exchange.started_at, new_session.updated_at)
    messages = place(
        [opening], session_id=new_session.id, exchange_id=exchange.id, next_rank=new_session.next_rank, at=at
    )
    session = new_session.model_copy(
        update={
            "active_exchange_id": exchange.id,
            "updated_at": at,
            "next_rank": new_session.next_rank + 1,
            "message_count": new_session.message_count + 1,
        }
    )
    await database["messages"].insert_many([message_document(message, exchange.id) for message in messages])
    await database["sessions"].insert_one(session_document(session, exchange.owner))
    return Written(session, messages)


async def _settled(
    database: Database, exchange: Document, session: Document | None, half_begun: HalfBegun
) -> ExchangeRecord | None:
    """The exchange as it stands, its end finished; None where it doesn't count, and it is removed if it never will.

    `session` has been read after it.
    """
    record = exchange_in(exchange)
    if record.status.ended:
        return record
    if session is not None and has_ended(session, record.id):
        await _finish_end(database, session)
        return exchange_in({**exchange, **session["ended"]["changes"]})
    if session is not None and session["active_exchange_id"] == record.id:
        return record
    if half_begun.is_given_up(record.id):
        if session is None:
            await delete_session(database, record.session_id)
        # Not one that has ended since it was read, nor can another have begun before that shows in its document.
        await database["exchanges"].delete_one({"_id": record.id, "status": {"$in": UNENDED}})
    return None


async def _finish_end(database: Database, session: Document) -> None:
    """Do what comes after the end of the session's last exchange; done again, it changes nothing."""
    ended = session["ended"]
    if (kpi := ended["kpi"]) is not None:
        await database["kpi_records"].replace_one({"_id": kpi["_id"]}, kpi, upsert=True)
    if (state := ended["state"]) is not None:
        # Later ends have higher ranks: none of these can become the session's any more.
        former = {"session_id": session["_id"], "rank": {"$lte": state["rank"]}, "_id": {"$ne": state["_id"]}}
        await database["session_states"].delete_many(former)
    await database["exchanges"].update_one({"_id": ended["exchange_id"]}, {"$set": ended["changes"]})


async def _keep_checkpoint(database: Database, fence: Fence, checkpoint: Checkpoint) -> None:
    """Not where another has finished the exchange's end meanwhile: the session may have gone on since."""
    held = {"_id": fence.exchange_id, "owner": fence.owner, "status": ExchangeStatus.RUNNING.value}
    if changes := checkpoint_changes(fence.exchange_id, checkpoint):
        await database["exchanges"].update_one(held, {"$set": changes})


async def _drop_checkpoint(database: Database, session: Document) -> None:
    """Drop what the interrupted exchange before the session's active one could go on from."""
    ended = session["ended"]
    if ended is not None and ended["changes"]["status"] == ExchangeStatus.INTERRUPTED:
        await database["exchanges"].update_one({"_id": ended["exchange_id"]}, {"$set": {"checkpoint": None}})


async def _keep_state(database: Database, fence: Fence, state: bytes | None) -> Document | None:
    if state is None:
        return None
    document = {"_id": uuid4().hex, "session_id": fence.session_id, "rank": fence.next_rank, "state": state}
    await database["session_states"].insert_one(document)
    return document


async def _set_session(database: Database, conditions: Document, changes: Document) -> Session | None:
    document = await database["sessions"].find_one_and_update(
        conditions, {"$set": changes}, return_document=ReturnDocument.AFTER
    )
    return session_in(document)
