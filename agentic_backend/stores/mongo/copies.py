"""MongoDB as the target of a transfer, and as its source, while no server uses it (see transfer)."""

from collections.abc import Sequence
from typing import TypeVar

from agentic_backend.stores.base import Checkpoint, KeptState
from agentic_backend.stores.mongo.documents import (
    UNENDED,
    WITHOUT_STATE,
    Database,
    Document,
    checkpoint_changes,
    counted,
    document,
    is_too_large,
    record_in,
    state_document,
)
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.mongo.sessions.sessions import collections_of_session
from agentic_backend.stores.mongo.sessions.settling import finish_ends, forget_states
from agentic_backend.stores.mongo.sessions.trail import remove_trail_of
from agentic_backend.stores.records import SessionRecord
from agentic_backend.stores.tables import EXCHANGES, SESSIONS, TABLES, Table, session_tables
from agentic_backend.stores.transfer import Counts

R = TypeVar("R")


class Copies(Part):
    async def begin_copies(self) -> None:
        pass

    @operation
    async def complete_rows(self, database: Database, session_ids: Sequence[str]) -> None:
        # What a server does when it comes across them.
        for session in await database["sessions"].find({"_id": {"$in": list(session_ids)}}).to_list(None):
            if session["ended"] is not None:
                await finish_ends(database, [session])
            uncounted = {"session_id": session["_id"], "rank": {"$gte": session["next_rank"]}}
            await database["messages"].delete_many(uncounted)
            never_begun = {"session_id": session["_id"], "status": {"$in": UNENDED}}
            for exchange in await database["exchanges"].find(never_begun, WITHOUT_STATE).to_list(None):
                if exchange["_id"] != session["active_exchange_id"]:
                    await remove_trail_of(database, record_in(EXCHANGES, exchange))
                    await database["exchanges"].delete_one({"_id": exchange["_id"]})

    @operation
    async def session_states(self, database: Database, session_id: str) -> list[KeptState]:
        await forget_states(database, session_id)
        counted = {"session_id": session_id, "counts": True}
        rows = await database["session_states"].find(counted).sort("rank", 1).to_list(None)
        return [KeptState(row["exchange_id"], row["rank"], bytes(row["state"])) for row in rows]

    @operation
    async def total(self, database: Database) -> Counts:
        return Counts({table.name: await database[table.name].count_documents(counted(table)) for table in TABLES})

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
            same: list[Document] = [{"_id": {"$in": [each["_id"] for each in copied]}}]
            # A value that is of another row now goes with the row that had it.
            same += [{column: {"$in": [each[column] for each in copied]}} for column in table.unique]
            await database[table.name].delete_many({"$or": same})
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
            own = counted(table) | {"session_id": among}
            counts[table.name] = await database[table.name].count_documents(own)
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
