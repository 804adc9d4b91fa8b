"""Batches of messages, counted whole or not at all, without transactions: MongoDB has none on a single server.

A batch is inserted at the ranks from its session's `next_rank` on, where its rows don't count yet, and counted by one
compare-and-set on the session, which moves `next_rank` behind them together with all else that changes there. Rows
that a dead writer left uncounted stand in the way of the next, for (session_id, rank) is unique. They are removed only
when it is certain that nobody can count them any more:

- Each attempt to write has a token of its own, its batch, which its rows bear. At the rank r, a batch can be counted
  only while `next_rank` is r, and there is no reservation at r, or it is that batch's.
- Whoever finds rows in the way reads their batches, then reserves r: one compare-and-set sets `reserved_rank` to r and
  `reserved_by` to a fresh token, if `next_rank` still is r and the writer still owns the session. From then on none of
  the batches that were read can be counted: a reservation at r is never given up but to another fresh token, and
  `next_rank` only grows. So their rows may be deleted, by their batches, however late the deletion comes.
- A writer reserves at most once in an attempt; where its reservation is gone it gives up. So of writers that dispute a
  rank one always gets on.

A counted row is never deleted, since its batch is counted only while nobody may delete it, and never written over,
since rows are only ever inserted. All rows of a counted batch are there: each was inserted before, in the one place
that the unique index leaves, and nobody deletes rows of a batch that can still be counted.
"""

from collections.abc import Sequence
from itertools import zip_longest
from uuid import uuid4

from pymongo import ReturnDocument

from agentic_backend.protocol.messages import ChatMessage
from agentic_backend.stores.mongo_documents import Database, Document, message_document
from agentic_backend.stores.mongo_driver import inserted


async def count_batch(
    database: Database,
    held: Document,
    messages: Sequence[ChatMessage],
    changes: Document,
    blocks: Sequence[int | None] = (),
) -> Document | None:
    """Insert `messages` and count them; the session after it, or None where `held` no longer holds.

    `held` is what must hold for the session: its `_id`, its `next_rank` (the first message's rank) and who owns it.
    `changes` are made to the session in the same step; among them its `updated_at`, which only grows. `blocks` are the
    messages' own, where they have any.
    """
    batch = _Batch(database, held, messages, changes, blocks)
    session = None
    if await batch.insert():
        session = await batch.count({"reserved_rank": {"$ne": held["next_rank"]}})
    return session or await _count_reserved(database, held, batch)


async def _count_reserved(database: Database, held: Document, former: "_Batch") -> Document | None:
    batch = _Batch(database, held, former.messages, former.changes, former.blocks)
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
        # A row of somebody else's came in between; from now on the reservation must be ours.
        expected = {**held, "reserved_by": batch.token}
    session = await batch.count({"reserved_by": batch.token})
    if session is None:
        await batch.remove([batch.token])
    return session


class _Batch:
    """One attempt to write `messages`, with a token that no other attempt has."""

    def __init__(
        self,
        database: Database,
        held: Document,
        messages: Sequence[ChatMessage],
        changes: Document,
        blocks: Sequence[int | None],
    ) -> None:
        self.messages = messages
        self.changes = changes
        self.blocks = blocks
        self.token = uuid4().hex
        self._sessions, self._messages = database["sessions"], database["messages"]
        self._held = held
        self._from_rank = {"session_id": held["_id"], "rank": {"$gte": held["next_rank"]}}
        self._documents = [
            message_document(message, self.token, block) for message, block in zip_longest(messages, blocks)
        ]

    async def insert(self) -> bool:
        """Insert the rows; False where a row stands in the way, though some may be inserted then."""
        if not self._documents:
            return True
        return await inserted(self._messages.insert_many(self._documents))

    async def count(self, reservation: Document) -> Document | None:
        held = {**self._held, **reservation}
        next_rank = self._held["next_rank"] + len(self._documents)
        changes = {**self.changes, "next_rank": next_rank}
        # Whoever else has written since it was read may have known a later time.
        latest = {"updated_at": changes.pop("updated_at")}
        update = {"$set": changes, "$max": latest, "$inc": {"message_count": len(self._documents)}}
        return await self._sessions.find_one_and_update(held, update, return_document=ReturnDocument.AFTER)

    async def batches_in_the_way(self) -> list[str]:
        rows = await self._messages.find(self._from_rank, {"batch": 1}).to_list(None)
        return sorted({row["batch"] for row in rows})

    async def remove(self, batches: list[str]) -> None:
        if batches:
            await self._messages.delete_many({**self._from_rank, "batch": {"$in": batches}})
