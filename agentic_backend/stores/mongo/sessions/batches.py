"""Batches of messages that count whole or not at all, without transactions: MongoDB has none on a single server.

A writer inserts a batch at the ranks from its session's `next_rank` on, where its rows don't count yet. One
compare-and-set on the session then counts it: this moves `next_rank` behind the rows, and makes all other changes to
the session. Uncounted rows of a dead writer block the next writer, since (session_id, rank) is unique. They are removed
only once it is certain that no writer can count them:

- Each attempt to write has a fresh token, its batch, which its rows carry. A batch at the rank r can be counted only
  while `next_rank` is r and r is not reserved, or reserved by that batch.
- A writer that finds rows in its way reads their batches, then reserves r: one compare-and-set sets `reserved_rank` to
  r and `reserved_by` to a fresh token, if `next_rank` still is r and the writer still owns the session. From then on
  none of the batches that it read can be counted: only another fresh token can replace a reservation at r, and
  `next_rank` only grows. So their rows may be deleted by batch at any later time.
- A writer reserves at most once in an attempt, and gives up if it loses its reservation. So of several writers at one
  rank, one always makes progress.

A counted row is never deleted, since its batch is counted only while no writer may delete it, and never overwritten,
since rows are only inserted. All rows of a counted batch exist: each was inserted before, the unique index allows no
other row at its rank, and no writer deletes rows of a batch that can still be counted.
"""

from collections.abc import Awaitable, Callable, Sequence
from uuid import uuid4

from pymongo import ReturnDocument

from agentic_backend.stores.mongo.documents import Database, Document, document
from agentic_backend.stores.mongo.driver import inserted, together
from agentic_backend.stores.mongo.sessions.trail import put_trail
from agentic_backend.stores.protocol.trail import TrailRecord
from agentic_backend.stores.records import MessageRecord
from agentic_backend.stores.tables import MESSAGES


class NotInserted(Exception):
    """What was to be inserted beside a batch is not."""


async def _nothing() -> bool:
    return True


async def count_batch(
    database: Database,
    held: Document,
    messages: Sequence[MessageRecord],
    changes: Document,
    *,
    begins: bool = False,
    trail: Sequence[TrailRecord] = (),
    beside: Callable[[], Awaitable[bool]] | None = None,
) -> Document | None:
    """Insert `messages` and `trail`, and count the messages; return the session after it, or None if `held` no longer
    holds: then `trail` is stored.

    `held` are conditions on the session: its `_id`, its `next_rank` (the first message's rank) and its owner. The same
    step applies `changes` to the session; among them its `updated_at`, which only grows. `begins` says that an
    exchange begins with them. `beside` is another insertion that has to come before the count; if it says that it has
    inserted nothing, no message is left, and NotInserted is raised.
    """
    batch = _Batch(database, held, messages, changes, begins=begins)
    session = None
    # At the same time: what doesn't count yet needs no order, and so takes one round trip.
    is_beside, is_inserted, _ = await together((beside or _nothing)(), batch.insert(), put_trail(database, trail))
    if not is_beside:
        await batch.remove([batch.token])
        raise NotInserted
    if is_inserted:
        session = await batch.count({"reserved_rank": {"$ne": held["next_rank"]}})
    return session or await _count_reserved(database, held, batch)


async def _count_reserved(database: Database, held: Document, former: "_Batch") -> Document | None:
    batch = _Batch(database, held, former.messages, former.changes, begins=former.begins)
    expected = held
    while True:
        in_the_way = await former.batches_in_the_way()
        reservation = {"$set": {"reserved_rank": held["next_rank"], "reserved_by": batch.token}}
        reserved = await database["sessions"].update_one(expected, reservation)
        if reserved.matched_count == 0:
            await batch.remove([former.token, batch.token])
            return None
        await batch.remove(in_the_way)
        if await batch.insert():
            break
        # Another writer inserted a row in between; from now on the reservation must be ours.
        expected = {**held, "reserved_by": batch.token}
    session = await batch.count({"reserved_by": batch.token})
    if session is None:
        await batch.remove([batch.token])
    return session


class _Batch:
    """One attempt to write `messages`, with a unique token."""

    def __init__(
        self,
        database: Database,
        held: Document,
        messages: Sequence[MessageRecord],
        changes: Document,
        *,
        begins: bool,
    ) -> None:
        self.messages = messages
        self.changes = changes
        self.begins = begins
        self.token = uuid4().hex
        self._sessions, self._messages = database["sessions"], database["messages"]
        self._held = held
        self._from_rank = {"session_id": held["_id"], "rank": {"$gte": held["next_rank"]}}
        self._documents = [document(MESSAGES, message, batch=self.token) for message in messages]

    async def insert(self) -> bool:
        """Insert the rows; False if other rows are in the way. Some of the rows may be inserted then."""
        if not self._documents:
            return True
        return await inserted(self._messages.insert_many(self._documents))

    async def count(self, reservation: Document) -> Document | None:
        held = {**self._held, **reservation}
        next_rank = self._held["next_rank"] + len(self._documents)
        changes = {**self.changes, "next_rank": next_rank}
        # $max: another writer may have set a later time since the session was read.
        latest = {"updated_at": changes.pop("updated_at")}
        counts = {"message_count": len(self._documents), "turn_count": int(self.begins)}
        update = {"$set": changes, "$max": latest, "$inc": counts}
        return await self._sessions.find_one_and_update(held, update, return_document=ReturnDocument.AFTER)

    async def batches_in_the_way(self) -> list[str | None]:
        """The batches of the rows there; None for rows that were copied from another store, which no writer counts."""
        rows = await self._messages.find(self._from_rank, {"batch": 1}).to_list(None)
        return list({row["batch"] for row in rows})

    async def remove(self, batches: Sequence[str | None]) -> None:
        if batches:
            await self._messages.delete_many({**self._from_rank, "batch": {"$in": batches}})
