"""The beginning of an exchange in MongoDB: its document, its first message, and its session (see exchanges)."""

import asyncio
from dataclasses import replace
from datetime import datetime

from agentic_backend.errors import SessionBusy, SessionCompleted, SessionNotFound
from agentic_backend.protocol.messages import ExchangeStatus, SessionState
from agentic_backend.stores.base import AlreadyAsked, Written
from agentic_backend.stores.mongo.documents import (
    NOTHING_TO_GO_ON_FROM,
    WITHOUT_STATE,
    Database,
    Document,
    document,
    record_in,
    session_in,
)
from agentic_backend.stores.mongo.driver import inserted
from agentic_backend.stores.mongo.sessions.batches import NotInserted, count_batch
from agentic_backend.stores.mongo.sessions.sessions import session_with
from agentic_backend.stores.mongo.sessions.settling import HalfBegun, settled
from agentic_backend.stores.records import ExchangeRecord, MessageDraft, SessionRecord, place
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.tables import EXCHANGES, MESSAGES, SESSIONS

# The interval at which a writer checks whether another writer has begun its exchange.
_LOOK_S = 0.05


class Admission:
    """The insertion of an exchange's document, the only one with its `asked_as` and its `holds`."""

    def __init__(self, database: Database, exchange: Document, half_begun: HalfBegun) -> None:
        self._database = database
        self._exchange = exchange
        self._half_begun = half_begun

    async def at_once(self) -> bool:
        """Insert the document; False if another one has its `asked_as` or its `holds`."""
        return await inserted(self._database["exchanges"].insert_one(self._exchange))

    async def whenever_free(self) -> None:
        """Insert the document as soon as no other is in its way that never counts, or not any more.

        Raises AlreadyAsked, SessionNotFound, SessionCompleted, SessionBusy.
        """
        database, exchange = self._database, self._exchange
        while not await self.at_once():
            asked = await database["exchanges"].find_one({"asked_as": exchange["asked_as"]}, WITHOUT_STATE)
            other = asked or await database["exchanges"].find_one({"holds": exchange["holds"]}, WITHOUT_STATE)
            if other is None:
                continue
            session = await database["sessions"].find_one({"_id": other["session_id"]})
            met = await settled(database, other, session, self._half_begun)
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
    await refuse_busy(database, session)
    return session


async def refuse_busy(database: Database, session: SessionRecord) -> None:
    """Raises SessionBusy if the session's active exchange exists."""
    active = {"_id": session.active_exchange_id}
    if session.active_exchange_id is not None and await database["exchanges"].find_one(active, {"_id": 1}) is not None:
        raise SessionBusy


async def open_in(
    database: Database,
    exchange: ExchangeRecord,
    opening: MessageDraft,
    now: datetime,
    admission: Admission | None,
) -> Written:
    """Insert the exchange's first message, and put the exchange into its session.

    Without an `admission`, the exchange is admitted already.
    """
    held = _as_expected(exchange)
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
        beside = None if admission is None else admission.at_once
        try:
            counted = await count_batch(database, held, messages, changes, begins=True, beside=beside)
        except NotInserted:
            assert admission is not None
            await admission.whenever_free()
            admission = None
            continue
        admission = None
        if counted is not None and (session := session_in(counted)) is not None:
            await drop_checkpoint(database, counted, held["next_rank"])
            return Written(session, messages, held["archived"] is True)
        found = await _open_session(database, exchange)
        # The caller expected another rank, the session's active exchange doesn't exist, or the session is archived.
        archived = True if found.archived else {"$ne": True}
        held |= {"next_rank": found.next_rank, "active_exchange_id": found.active_exchange_id, "archived": archived}
        at = max(at, found.updated_at)
        begins = {"first_rank": found.next_rank, "started_at": rfc3339(max(exchange.started_at, found.updated_at))}
        await database["exchanges"].update_one({"_id": exchange.id}, {"$set": begins})


def _as_expected(exchange: ExchangeRecord) -> Document:
    """The session as the exchange's caller expects it: active, idle, not archived, at the exchange's first rank."""
    return {
        "_id": exchange.session_id,
        "next_rank": exchange.first_rank,
        "user_id": exchange.user_id,
        "state": SessionState.ACTIVE.value,
        "active_exchange_id": None,
        "archived": {"$ne": True},
    }


async def open_with(
    database: Database, exchange: ExchangeRecord, opening: MessageDraft, new_session: SessionRecord, now: datetime
) -> Written:
    """Insert the exchange's first message, then a session with the exchange in it.

    Raises SessionBusy if there is one with its id, or one is being opened.
    """
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
    documents = [document(MESSAGES, message, batch=exchange.id) for message in messages]
    if not await inserted(database["messages"].insert_many(documents)):
        raise SessionBusy
    if not await inserted(database["sessions"].insert_one(document(SESSIONS, session))):
        own = {"_id": session.id, "active_exchange_id": exchange.id}
        # If the driver has sent it twice, the session is this one.
        if await database["sessions"].find_one(own, {"_id": 1}) is None:
            await database["messages"].delete_many({"session_id": session.id, "batch": exchange.id})
            raise SessionBusy
    return Written(session, messages)


async def drop_checkpoint(database: Database, session: Document, first_rank: int) -> None:
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
