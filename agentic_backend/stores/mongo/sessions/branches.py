"""Branches in MongoDB.

A branch is stored without a user, as if it were being deleted, until all that it starts from is there and all that it
descends from is seen to be there still. So an ancestor that goes meanwhile takes it along, and one that a dead process
has begun is removed like a half deleted session.
"""

from dataclasses import replace

from agentic_backend.stores.base import KeptState
from agentic_backend.stores.lineage import spans_of
from agentic_backend.stores.mongo.documents import Database, document, session_in, state_document
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.mongo.sessions.messages import within
from agentic_backend.stores.mongo.sessions.sessions import changed_session, delete, state_at
from agentic_backend.stores.mongo.sessions.settling import exchange_with
from agentic_backend.stores.mongo.sessions.trail import put_trail
from agentic_backend.stores.protocol.trail import SummaryRecord
from agentic_backend.stores.records import ExchangeRecord, SessionRecord
from agentic_backend.stores.tables import SESSIONS


class Branches(Part):
    @operation
    async def fork_session(
        self, database: Database, branch: SessionRecord, summary: SummaryRecord | None
    ) -> SessionRecord | None:
        parent = branch.lineage[-1]
        begun_below = within(spans_of(branch), 0, branch.next_rank, "first_rank")
        begun = replace(branch, turn_count=await database["exchanges"].count_documents(begun_below))
        async with self.turn(parent.session_id):
            above = -1 if branch.reset_rank is None else branch.reset_rank
            found = await state_at(database, parent.session_id, parent.rank, above)
            state_id = None
            if found is not None:
                kept = KeptState(found["exchange_id"], found["rank"], bytes(found["state"]))
                copied = state_document(branch.id, kept, counts=True)
                await database["session_states"].insert_one(copied)
                state_id = copied["_id"]
            await put_trail(database, [] if summary is None else [summary])
            await database["sessions"].insert_one({**document(SESSIONS, begun, state_id=state_id), "user_id": None})
            if not await _has_ancestors(database, branch):
                await delete(database, branch.id)
                return None
            return await changed_session(database, {"_id": branch.id}, {"user_id": branch.user_id})

    @operation
    async def family(self, database: Database, root_id: str) -> list[SessionRecord]:
        of_family = {"$or": [{"_id": root_id}, {"root_id": root_id}]}
        found = database["sessions"].find(of_family).sort([("created_at", 1), ("_id", 1)])
        return [session for session in map(session_in, await found.to_list(None)) if session is not None]

    @operation
    async def exchange_at(self, database: Database, session: SessionRecord, rank: int) -> ExchangeRecord | None:
        begun = database["exchanges"].find(within(spans_of(session), rank, rank + 1, "first_rank"), {"_id": 1})
        for row in await begun.to_list(None):
            # One that a dead writer has begun at this rank may be there too, and doesn't count.
            if (exchange := await exchange_with(database, {"_id": row["_id"]})) is not None:
                return exchange
        return None


async def _has_ancestors(database: Database, branch: SessionRecord) -> bool:
    """Whether none of them is being deleted: a deletion begins with the oldest of the sessions that it takes."""
    ids = [ancestor.session_id for ancestor in branch.lineage]
    return await database["sessions"].count_documents({"_id": {"$in": ids}, "user_id": {"$ne": None}}) == len(ids)
