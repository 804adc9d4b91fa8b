"""All of a user's rows in MongoDB. Its server reuses the space of deleted documents, and ages its journals, itself."""

from datetime import datetime
from typing import Any, TypeVar

from agentic_backend.stores.mongo.applications.record_batches import settle_left
from agentic_backend.stores.mongo.documents import Database, counted, document, record_in, stored_name
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.mongo.sessions.finishing import Finishing
from agentic_backend.stores.protocol.user_rows import HIDDEN, HIDDEN_END, LEFT_OF_USAGE, midnight_of
from agentic_backend.stores.records import JournalMark, UserDeletion
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.tables import DELETIONS, JOURNAL_MARKS, RECORDS_TABLES, USAGE, Table, written_at

R = TypeVar("R")


class Users(Part):
    finishing: Finishing

    @operation
    async def page(
        self,
        database: Database,
        table: Table[R],
        after: str | int | None,
        limit: int,
        session_id: str | None = None,
        user_id: str | None = None,
    ) -> list[R]:
        await self.finishing.all()
        if table in RECORDS_TABLES:
            await settle_left(database, self.now())
        order = stored_name(table, table.order)
        given = {"session_id": session_id, str(table.user): user_id}
        conditions = counted(table) | {name: value for name, value in given.items() if value is not None}
        if after is not None:
            conditions[order] = {"$gt": after}
        found = database[table.name].find(conditions).sort(order, 1).limit(limit)
        return [record_in(table, row) for row in await found.to_list(None)]

    @operation
    async def state_after(self, database: Database, session_id: str, rank: int) -> tuple[int, bytes] | None:
        above = {"session_id": session_id, "rank": {"$gt": rank}}
        rows = await database["session_states"].find(above).sort("rank", 1).limit(1).to_list(None)
        return (rows[0]["rank"], bytes(rows[0]["state"])) if rows else None

    @operation
    async def sessions_to_delete(self, database: Database, user_id: str, limit: int) -> list[str]:
        # A session without a user is being deleted, by a process that may be dead.
        for user in (user_id, None):
            found = await database["sessions"].find({"user_id": user}, {"_id": 1}).limit(limit).to_list(None)
            if found:
                return [row["_id"] for row in found]
        # An exchange may have begun in a session that was never stored.
        begun = database["exchanges"].find({"user_id": user_id}, {"session_id": 1}).limit(limit)
        return sorted({row["session_id"] for row in await begun.to_list(None)})

    @operation
    async def delete_user_rows(
        self, database: Database, table: Table[Any], user_id: str, limit: int, up_to: datetime | None = None
    ) -> int:
        # So that nothing is written any more of what is deleted.
        await self.finishing.all()
        old = {} if up_to is None else {str(written_at(table)): {"$lte": rfc3339(up_to)}}
        own = database[table.name].find({str(table.user): user_id, **old}, {"_id": 1}).limit(limit)
        if not (ids := [row["_id"] for row in await own.to_list(None)]):
            return 0
        return (await database[table.name].delete_many({"_id": {"$in": ids}})).deleted_count

    @operation
    async def hide_usage(
        self,
        database: Database,
        user_id: str,
        hidden: str,
        since: datetime,
        limit: int,
        up_to: datetime | None = None,
    ) -> int:
        await self.finishing.all()
        usage = database[USAGE.name]
        old = {} if up_to is None else {"$lte": rfc3339(up_to)}
        own = usage.find({"user_id": user_id, "at": {"$gte": rfc3339(since), **old}}, {"day": 1}).limit(limit)
        ids_of: dict[str, list[Any]] = {}
        for row in await own.to_list(None):
            ids_of.setdefault(row["day"], []).append(row["_id"])
        for day, ids in ids_of.items():
            left = {**LEFT_OF_USAGE, "user_id": hidden, "at": midnight_of(day)}
            await usage.update_many({"_id": {"$in": ids}}, {"$set": left})
        return sum(map(len, ids_of.values()))

    @operation
    async def delete_hidden_usage(self, database: Database, before: datetime, limit: int) -> int:
        usage = database[USAGE.name]
        hidden = {"user_id": {"$gte": HIDDEN, "$lt": HIDDEN_END}, "at": {"$lt": rfc3339(before)}}
        old = await usage.find(hidden, {"_id": 1}).limit(limit).to_list(None)
        if not old:
            return 0
        return (await usage.delete_many({"_id": {"$in": [row["_id"] for row in old]}})).deleted_count

    @operation
    async def keep_deletion(self, database: Database, deletion: UserDeletion) -> None:
        kept = document(DELETIONS, deletion)
        await database[DELETIONS.name].replace_one({"_id": kept["_id"]}, kept, upsert=True)

    @operation
    async def deletions(self, database: Database, limit: int = 1_000) -> list[UserDeletion]:
        found = database[DELETIONS.name].find().sort("_id", 1).limit(limit)
        return [record_in(DELETIONS, row) for row in await found.to_list(None)]

    @operation
    async def end_deletion(self, database: Database, deletion: UserDeletion) -> None:
        as_read = {"_id": deletion.user_id, "until": rfc3339(deletion.until)}
        await database[DELETIONS.name].delete_one(as_read)

    async def prove_deletion(self) -> None:
        pass

    @operation
    async def journal_marks(self, database: Database) -> list[JournalMark]:
        return [record_in(JOURNAL_MARKS, row) for row in await database[JOURNAL_MARKS.name].find().to_list(None)]

    @operation
    async def keep_journal_mark(self, database: Database, mark: JournalMark, oldest: datetime) -> None:
        marks, kept = database[JOURNAL_MARKS.name], document(JOURNAL_MARKS, mark)
        await marks.delete_many({"until": {"$lt": rfc3339(oldest)}})
        await marks.replace_one({"_id": kept["_id"]}, kept, upsert=True)

    async def erase(self) -> None:
        pass
