"""The unfinished texts of running exchanges in MongoDB.

They change an exchange only while it runs for their owner. A piece may come late, when that owner has just lost the
exchange: it names its owner, and only those of the exchange's present one count.
"""

from collections.abc import Collection, Mapping, Sequence

from pymongo import ReplaceOne, UpdateOne

from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.mongo.documents import LARGEST_STATE, Database, document, record_in
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.mongo.sessions.sessions import session_with
from agentic_backend.stores.protocol.partials import PartialPiece, joined
from agentic_backend.stores.rows import json_text, partial_of, unstored
from agentic_backend.stores.tables import PARTIAL_PIECES


class Partials(Part):
    @operation
    async def keep_partials(
        self, database: Database, owner: str, partials: Mapping[str, Sequence[PartialText]]
    ) -> None:
        kept = {exchange_id: json_text(texts) for exchange_id, texts in partials.items()}
        running = {"owner": owner, "status": ExchangeStatus.RUNNING.value}
        updates = [
            UpdateOne({"_id": exchange_id, **running}, {"$set": {"partial": text}})
            for exchange_id, text in kept.items()
            # A text that fits into no document would make the others fail too.
            if text is None or len(text.encode()) <= LARGEST_STATE
        ]
        if updates:
            await database["exchanges"].bulk_write(updates, ordered=False)

    @operation
    async def add_partials(self, database: Database, pieces: Sequence[PartialPiece]) -> None:
        of = {"_id": {"$in": sorted({piece.exchange_id for piece in pieces})}, "status": ExchangeStatus.RUNNING.value}
        owners = {found["_id"]: found["owner"] async for found in database["exchanges"].find(of, {"owner": 1})}
        documents = [
            document(PARTIAL_PIECES, piece) for piece in pieces if owners.get(piece.exchange_id) == piece.owner
        ]
        replaced = [ReplaceOne({"_id": each["_id"]}, each, upsert=True) for each in documents]
        if replaced:
            await database["partial_pieces"].bulk_write(replaced, ordered=False)

    @operation
    async def forget_pieces(self, database: Database, exchange_ids: Collection[str]) -> None:
        await database["partial_pieces"].delete_many({"exchange_id": {"$in": list(exchange_ids)}})

    @operation
    async def partial(self, database: Database, exchange_id: str) -> list[PartialText]:
        # Read the text before the messages, so that a block stored in between is left out of it.
        fields = {"partial": 1, "session_id": 1, "owner": 1}
        kept = await database["exchanges"].find_one({"_id": exchange_id}, fields)
        if kept is None:
            return []
        own = {"exchange_id": exchange_id, "owner": kept.get("owner")}
        found = await database["partial_pieces"].find(own).sort("number", 1).to_list(None)
        pieces = [record_in(PARTIAL_PIECES, each).text for each in found]
        texts = joined(partial_of(kept.get("partial") or "[]"), pieces)
        if not texts:
            return []
        session = await session_with(database, kept["session_id"])
        if session is None or session.active_exchange_id != exchange_id:
            # It has ended, which its document may not show yet.
            return []
        counted = {"exchange_id": exchange_id, "rank": {"$lt": session.next_rank}}
        rows = await database["messages"].find(counted, {"block": 1}).to_list(None)
        return unstored(texts, [row.get("block") for row in rows])
