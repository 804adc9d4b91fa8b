"""Writes another store's records into MongoDB for a transfer, and counts them (see transfer)."""

from collections.abc import Sequence
from typing import TypeVar

from agentic_backend.stores.base import Checkpoint, KeptState
from agentic_backend.stores.mongo.documents import (
    Database,
    Document,
    checkpoint_changes,
    document,
    is_too_large,
    state_document,
)
from agentic_backend.stores.mongo.operations import Part, operation
from agentic_backend.stores.mongo.sessions import collections_of_session
from agentic_backend.stores.records import SessionRecord
from agentic_backend.stores.tables import SESSIONS, Table, session_tables
from agentic_backend.stores.transfer import Counts

R = TypeVar("R")


class Copies(Part):
    @operation
    async def clear_sessions(self, database: Database, session_ids: Sequence[str]) -> None:
        # The sessions first, so that no session counts that has lost a part of its rows.
        among = {"$in": list(session_ids)}
        await database["sessions"].delete_many({"_id": among})
        for collection in collections_of_session():
            await database[collection].delete_many({"session_id": among})

    @operation
    async def copy(self, database: Database, table: Table[R], records: Sequence[R]) -> None:
        copied = [document(table, record) for record in records]
        if not table.of_session:
            newer = await _newer(database, table, copied)
            copied = [each for each in copied if each["_id"] not in newer]
            await database[table.name].delete_many({"_id": {"$in": [each["_id"] for each in copied]}})
        if copied:
            await database[table.name].insert_many(copied)

    @operation
    async def copy_checkpoint(self, database: Database, exchange_id: str, checkpoint: Checkpoint) -> None:
        if changes := checkpoint_changes(exchange_id, checkpoint):
            await database["exchanges"].update_one({"_id": exchange_id}, {"$set": changes})

    @operation
    async def copy_session(self, database: Database, session: SessionRecord, states: Sequence[KeptState]) -> None:
        kept = [
            state_document(session.id, each, counts=True)
            for each in states
            if not is_too_large("a session's state", each.exchange_id, each.state)
        ]
        for each in kept:
            await database["session_states"].insert_one(each)
        state_id = kept[-1]["_id"] if kept else None
        await database["sessions"].insert_one(document(SESSIONS, session, state_id=state_id))

    @operation
    async def count_rows(self, database: Database, session_ids: Sequence[str]) -> Counts:
        among = {"$in": list(session_ids)}
        counts = {SESSIONS.name: await database["sessions"].count_documents({"_id": among})}
        for table in session_tables():
            counts[table.name] = await database[table.name].count_documents({"session_id": among})
        return Counts(counts)

    @operation
    async def count_among(self, database: Database, table: Table[R], records: Sequence[R]) -> int:
        return await database[table.name].count_documents(_among(table, records))


async def _newer(database: Database, table: Table[R], copied: Sequence[Document]) -> set[str]:
    """The ids of those of which a later version is there."""
    times = {each["_id"]: each["updated_at"] for each in copied if "updated_at" in each}
    if not times:
        return set()
    there = database[table.name].find({"_id": {"$in": list(times)}}, {"updated_at": 1})
    return {row["_id"] for row in await there.to_list(None) if row["updated_at"] > times[row["_id"]]}


def _among(table: Table[R], records: Sequence[R]) -> Document:
    [key] = table.key
    return {"_id": {"$in": [getattr(record, key) for record in records]}}
