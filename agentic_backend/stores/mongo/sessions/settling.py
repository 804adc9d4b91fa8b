"""Decides which exchanges count in MongoDB, and completes what a dead writer has begun.

An exchange that has not ended counts only while its session names it. If the session names it as ended, its end counts,
and only its own document doesn't show that yet. Any other running exchange has not begun yet, or never will. Its age
can't show which, since it depends on the writer's clock; the time since this process first saw it can.
"""

import time
from collections.abc import Callable, Sequence

from cachetools import LRUCache
from pymongo import ReplaceOne, UpdateOne

from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.base import STATES_KEPT
from agentic_backend.stores.mongo.documents import UNENDED, WITHOUT_STATE, Database, Document, record_in
from agentic_backend.stores.mongo.driver import inserted, together
from agentic_backend.stores.mongo.sessions.sessions import delete
from agentic_backend.stores.mongo.sessions.trail import remove_trail_of
from agentic_backend.stores.records import ExchangeRecord
from agentic_backend.stores.tables import EXCHANGES

# The time of a forgotten exchange starts again.
_KNOWN_AT_MOST = 10_000
FORGET_EVERY = 8
"""The number of a session's turns after which its oldest states are removed: a read doesn't return them before."""


class HalfBegun:
    """The exchanges that a writer has begun but not counted yet, and when this process first saw each.

    A writer needs at most `writer_s` to begin an exchange; after that it has given up, or is dead.
    """

    def __init__(self, writer_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.writer_s = writer_s
        self._clock = clock
        self._met_at: LRUCache[str, float] = LRUCache(_KNOWN_AT_MOST)

    def is_given_up(self, exchange_id: str) -> bool:
        """Whether its writer must have given up: this process first saw the exchange `writer_s` ago or earlier."""
        return self._clock() - self._met_at.setdefault(exchange_id, self._clock()) >= self.writer_s


async def exchange_with(database: Database, conditions: Document) -> ExchangeRecord | None:
    """The current exchange, if it counts."""
    current = await current_document(database, conditions)
    return None if current is None else record_in(EXCHANGES, current)


async def current_document(database: Database, conditions: Document) -> Document | None:
    """The document of the current exchange, if it counts.

    The stored state is not read: the key `checkpoint` is there only if the session has an end that drops the state.
    """
    found = await database["exchanges"].find_one(conditions, WITHOUT_STATE)
    if found is None or ExchangeStatus(found["status"]).ended:
        return found
    session = await database["sessions"].find_one({"_id": found["session_id"]})
    if session is not None and (session["active_exchange_id"] == found["_id"] or has_ended(session, found["_id"])):
        return as_of(session, found)
    # It has never begun; or it has ended since it was read, and so has the next one.
    ended = {"_id": found["_id"], "status": {"$nin": UNENDED}}
    return await database["exchanges"].find_one(ended, WITHOUT_STATE)


def as_of(session: Document, exchange: Document) -> Document:
    """The document of an exchange that counts, with its end if only the session has that."""
    return {**exchange, **session["ended"]["changes"]} if has_ended(session, exchange["_id"]) else exchange


def has_ended(session: Document, exchange_id: str) -> bool:
    return session["ended"] is not None and bool(session["ended"]["exchange_id"] == exchange_id)


async def settled_all(database: Database, exchanges: Sequence[Document], half_begun: HalfBegun) -> list[ExchangeRecord]:
    """The exchanges that count and have not ended, of those whose documents say so; completes half-done writes.

    This finds everything that a dead writer left incomplete: the exchange's document still names a dead owner.
    """
    if not exchanges:
        return []
    ids = [exchange["session_id"] for exchange in exchanges]
    found = await database["sessions"].find({"_id": {"$in": ids}}).to_list(None)
    sessions = {session["_id"]: session for session in found}
    records = [
        await settled(database, exchange, sessions.get(exchange["session_id"]), half_begun) for exchange in exchanges
    ]
    return [record for record in records if record is not None and not record.status.ended]


async def settled(
    database: Database, exchange: Document, session: Document | None, half_begun: HalfBegun
) -> ExchangeRecord | None:
    """The current exchange, after completing its end; None if it doesn't count. Removes it if it never will.

    `session` must have been read after `exchange`.
    """
    record = record_in(EXCHANGES, exchange)
    if record.status.ended:
        return record
    if session is not None and has_ended(session, record.id):
        await finish_ends(database, [session])
        return record_in(EXCHANGES, as_of(session, exchange))
    if session is not None and session["active_exchange_id"] == record.id:
        return record
    if half_begun.is_given_up(record.id):
        if session is None:
            await delete(database, record.session_id)
        await remove_trail_of(database, record)
        # The condition spares an exchange that has ended since it was read: no other begins before its status says so.
        await database["exchanges"].delete_one({"_id": record.id, "status": {"$in": UNENDED}})
    return None


async def finish_ends(database: Database, sessions: Sequence[Document]) -> None:
    """Complete the end of the last exchange of each session. A repetition changes nothing."""
    # Documents of an older schema have no number of turns.
    due = [session["_id"] for session in sessions if (session.get("turn_count") or 0) % FORGET_EVERY == 0]
    # Nobody need wait longer while states are forgotten: what is not counted yet is newer than what goes.
    await together(
        _finish(database, [session["ended"] for session in sessions]),
        *[forget_states(database, session_id) for session_id in due],
    )


async def _finish(database: Database, ends: Sequence[Document]) -> None:
    kpis = [ReplaceOne({"_id": end["kpi"]["_id"]}, end["kpi"], upsert=True) for end in ends if end["kpi"] is not None]
    counts = {"$set": {"counts": True}}
    states = [UpdateOne({"_id": end["state"]["_id"]}, counts) for end in ends if end["state"] is not None]
    await together(_write(database, "kpi_records", kpis), _write(database, "session_states", states))
    # Last: with it, the session is free for the next exchange, whose end replaces this one.
    await _write(
        database, "exchanges", [UpdateOne({"_id": end["exchange_id"]}, {"$set": end["changes"]}) for end in ends]
    )


async def _write(database: Database, collection: str, writes: Sequence[UpdateOne | ReplaceOne[Document]]) -> None:
    # What another writer has inserted at the same time can be replaced then.
    while writes and not await inserted(database[collection].bulk_write(writes, ordered=False)):
        pass


async def forget_states(database: Database, session_id: str) -> None:
    """Remove all states older than the session's last STATES_KEPT, also those that dead writers left."""
    counted = {"session_id": session_id, "counts": True}
    found = database["session_states"].find(counted, {"rank": 1}).sort([("rank", -1)]).limit(STATES_KEPT + 1)
    newest = await found.to_list(None)
    if len(newest) > STATES_KEPT:
        old = {"session_id": session_id, "rank": {"$lte": newest[-1]["rank"]}}
        await database["session_states"].delete_many(old)
