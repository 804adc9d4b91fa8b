"""Chores in MongoDB. A document in `chores` says who has claimed a chore until when, by the database's time."""

from datetime import datetime, timedelta
from typing import Any

from agentic_backend.protocol.messages import ExchangeStatus, SessionState
from agentic_backend.stores.mongo.documents import Database, record_in
from agentic_backend.stores.mongo.driver import inserted
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.protocol.chores import Waiting
from agentic_backend.stores.records import SessionRecord
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.tables import SESSIONS, Table


class Chores(Part):
    @operation
    async def claim_chore(self, database: Database, name: str, owner: str, for_s: float) -> bool:
        now = self.now()
        claim = {"owner": owner, "until": rfc3339(now + timedelta(seconds=for_s))}
        free = {"_id": name, "$or": [{"owner": owner}, {"until": {"$lt": rfc3339(now)}}]}
        claimed = await database["chores"].update_one(free, {"$set": claim})
        return claimed.matched_count > 0 or await inserted(database["chores"].insert_one({"_id": name, **claim}))

    @operation
    async def waiting_exchanges(self, database: Database) -> Waiting:
        waiting = {"status": ExchangeStatus.AWAITING_HUMAN.value}
        count = await database["exchanges"].count_documents(waiting)
        oldest = await database["exchanges"].find(waiting, {"started_at": 1}).sort("started_at", 1).limit(1).to_list(1)
        return Waiting(count, datetime.fromisoformat(oldest[0]["started_at"]) if oldest else None)

    @operation
    async def idle_sessions(
        self, database: Database, state: SessionState, before: datetime, limit: int
    ) -> list[SessionRecord]:
        # A session without a user is being deleted.
        idle = {
            "state": state.value,
            "updated_at": {"$lt": rfc3339(before)},
            "active_exchange_id": None,
            "user_id": {"$ne": None},
        }
        found = database["sessions"].find(idle).sort("updated_at", 1).limit(limit)
        return [record_in(SESSIONS, row) for row in await found.to_list(None)]

    @operation
    async def idle_families(self, database: Database, before: datetime, limit: int) -> list[SessionRecord]:
        sessions, found = database["sessions"], list[SessionRecord]()
        older_than = {"$lt": rfc3339(before)}
        roots = {"root_id": None, "updated_at": older_than, "active_exchange_id": None, "user_id": {"$ne": None}}
        skipped = 0
        while len(found) < limit:
            page = await sessions.find(roots).sort("updated_at", 1).skip(skipped).limit(limit).to_list(None)
            skipped += len(page)
            live = {
                "root_id": {"$in": [root["_id"] for root in page]},
                "$or": [{"updated_at": {"$not": older_than}}, {"active_exchange_id": {"$ne": None}}],
            }
            kept = {branch["root_id"] for branch in await sessions.find(live, {"root_id": 1}).to_list(None)}
            found += [record_in(SESSIONS, root) for root in page if root["_id"] not in kept]
            if len(page) < limit:
                break
        return found[:limit]

    @operation
    async def delete_old(self, database: Database, table: Table[Any], before: datetime, limit: int) -> int:
        rows, time = database[table.name], str(table.time)
        old = rows.find({time: {"$lt": rfc3339(before)}}, {"_id": 1}).sort(time, 1).limit(limit)
        if not (ids := [row["_id"] for row in await old.to_list(None)]):
            return 0
        return (await rows.delete_many({"_id": {"$in": ids}})).deleted_count

    async def index_texts(self, limit: int) -> int:
        # MongoDB's index of texts finds whole words only.
        return 0
