"""Records of applications in MongoDB. A write of one record is one compare-and-set; for several see record_batches."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime

from pymongo.errors import DuplicateKeyError

from agentic_backend.errors import LimitReached, RecordConflict, SessionNotFound
from agentic_backend.stores.mongo.applications.record_batches import (
    Way,
    changes_of,
    document_of,
    expected_by,
    settle_found,
    settle_in_the_way,
    settle_left,
    write_batch,
)
from agentic_backend.stores.mongo.documents import Database, Document, counted, record_in
from agentic_backend.stores.mongo.driver import inserted
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.protocol.application_records import (
    SEARCHED,
    ApplicationRecord,
    RecordQuery,
    RecordWrite,
    Searched,
    SearchedRecord,
    behind,
)
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.tables import (
    APPLICATION_RECORDS,
    RECORDS_TABLES,
    SESSION_APPLICATION_RECORDS,
    records_table,
    table_of,
)

_COUNTED = counted(APPLICATION_RECORDS)
_UNREAD = dict.fromkeys(SEARCHED, 0)


class ApplicationRecords(Part):
    @operation
    async def get_application_records(
        self, database: Database, ids: Collection[str], *, of_session: bool
    ) -> list[ApplicationRecord]:
        # Also those that don't count: their batch may count already.
        return await self._found(database, {"_id": {"$in": list(ids)}}, of_session=of_session)

    @operation
    async def find_application_records(self, database: Database, query: RecordQuery) -> list[ApplicationRecord]:
        # A batch may count, and a record of it not be in its new place yet.
        await settle_left(database, self.now())
        order, sign = ("_id" if query.order == "id" else query.order), ("$lt" if query.descending else "$gt")
        among: Document = {"$gte": query.first, "$lt": query.behind}
        bound = {} if query.after is None else {"$and": [{order: {sign: query.after}}]}
        conditions: Document = {order: among, **bound, **_COUNTED}
        by = [(order, -1 if query.descending else 1)]
        return await self._found(database, conditions, by, query.limit, of_session=query.of_session)

    @operation
    async def searched_places(
        self, database: Database, after: str, behind: str, limit: int, *, of_session: bool
    ) -> list[str]:
        await settle_left(database, self.now())
        # The index alone has all that is read: what does not count is left out when its record is.
        records = database[records_table(of_session=of_session).name]
        found = records.find({"searched": {"$gt": after, "$lt": behind}}, {"_id": 0, "searched": 1})
        return [row["searched"] for row in await found.sort("searched", 1).limit(limit).to_list(None)]

    @operation
    async def searched_records(
        self, database: Database, column: Searched, places: Collection[str], *, of_session: bool
    ) -> list[SearchedRecord]:
        records = database[records_table(of_session=of_session).name]
        wanted = {"searched": {"$in": list(places)}, **_COUNTED}
        found = records.find(wanted, {"key": 1, "searched": 1, column: 1})
        return [SearchedRecord(row["key"], row["searched"], row.get(column)) for row in await found.to_list(None)]

    @operation
    async def write_application_records(self, database: Database, writes: Sequence[RecordWrite]) -> None:
        sessions = {(each.record.session_id, each.record.user_id) for each in writes if each.record.session_id}
        if missing := await _missing(database, sessions):
            await _remove_orphans(database, missing)
            raise SessionNotFound
        for table, among, most in {
            (table_of(each.record).name, each.among, each.most) for each in writes if each.is_insertion
        }:
            own = [each for each in writes if table_of(each.record).name == table and each.record.id.startswith(among)]
            more = sum(each.is_insertion for each in own) - sum(each.is_removal for each in own)
            kept = {"_id": {"$gte": among, "$lt": behind(among)}, **_COUNTED}
            if more > 0 and await database[table].count_documents(kept) + more > most:
                raise LimitReached(f"No more than {most} of these can be kept.")
        async with AsyncExitStack() as turns:
            for place in sorted({f"{table_of(each.record).name} {each.record.id}" for each in writes}):
                await turns.enter_async_context(self.turn(place))
            if len(writes) == 1:
                await self._write_one(database, writes[0])
            else:
                await write_batch(database, writes, self.now())
        await _remove_orphans(database, await _missing(database, sessions))

    @operation
    async def outdated_application_records(
        self, database: Database, kind: str, version: int, layout: str, limit: int, *, of_session: bool
    ) -> list[ApplicationRecord]:
        older = {"kind": kind, "version": {"$lt": version}}
        otherwise = {"kind": kind, "version": version, "layout": {"$ne": layout}}
        conditions: Document = {"$or": [older, otherwise], **_COUNTED}
        return await self._found(database, conditions, limit=limit, of_session=of_session)

    @operation
    async def delete_application_records(
        self, database: Database, kind: str, before: datetime, limit: int, *, of_session: bool
    ) -> int:
        table = records_table(of_session=of_session).name
        # What a batch is changing is no longer old.
        old = {"kind": kind, "updated_at": {"$lt": rfc3339(before)}, "batch": None}
        ids = [row["_id"] for row in await database[table].find(old, {"_id": 1}).limit(limit).to_list(None)]
        return (await database[table].delete_many({"_id": {"$in": ids}, **old})).deleted_count if ids else 0

    @operation
    async def application_record_kinds(self, database: Database) -> Mapping[str, int]:
        return await kinds_of_records(database)

    async def _found(
        self,
        database: Database,
        conditions: Document,
        by: Sequence[tuple[str, int]] = (),
        limit: int = 0,
        *,
        of_session: bool,
    ) -> list[ApplicationRecord]:
        table = records_table(of_session=of_session)

        async def read() -> list[Document]:
            found = database[table.name].find(conditions, _UNREAD)
            return await (found.sort(list(by)) if by else found).limit(limit).to_list(None)

        rows = await read()
        if await settle_found(database, table.name, rows, self.now()):
            rows = await read()
        return [record_in(table, row) for row in rows if row["revision"] > 0]

    async def _write_one(self, database: Database, write: RecordWrite) -> None:
        for _ in range(2):
            if await _written(database, write):
                return
            # What is in its way may be of a batch that was left, or not completed.
            if (found := await settle_in_the_way(database, [write], self.now())) is not Way.SETTLED:
                raise RecordConflict(retryable=found is Way.AT_WORK)
        raise RecordConflict


async def kinds_of_records(database: Database) -> Mapping[str, int]:
    """The kinds of which there are records, with their newest version."""
    newest: dict[str, int] = {}
    for table in RECORDS_TABLES:
        # From one kind to the next, by the index.
        kind = ""
        while (
            rows := await database[table.name]
            .find({"kind": {"$gt": kind}, **_COUNTED}, {"kind": 1, "version": 1})
            .sort([("kind", 1), ("version", -1), ("layout", 1)])
            .limit(1)
            .to_list(None)
        ):
            kind = rows[0]["kind"]
            newest[kind] = max(int(rows[0]["version"]), newest.get(kind, 0))
    return newest


async def _missing(database: Database, sessions: Collection[tuple[str, str | None]]) -> list[str]:
    """The ids of those sessions that are not there, or not their user's."""
    if not sessions:
        return []
    ids = {"_id": {"$in": [session_id for session_id, _ in sessions]}}
    found = await database["sessions"].find(ids, {"user_id": 1}).to_list(None)
    there = {(row["_id"], row["user_id"]) for row in found}
    return [session_id for session_id, user_id in sessions if (session_id, user_id) not in there]


async def _remove_orphans(database: Database, session_ids: Sequence[str]) -> None:
    """Remove what is left of sessions that were deleted while their records were being written."""
    for session_id in session_ids:
        session = await database["sessions"].find_one({"_id": session_id}, {"user_id": 1})
        # A session that is there is another user's.
        if session is None or session["user_id"] is None:
            await database[SESSION_APPLICATION_RECORDS.name].delete_many({"session_id": session_id})


async def _written(database: Database, write: RecordWrite) -> bool:
    records = database[table_of(write.record).name]
    if write.is_insertion:
        return await inserted(records.insert_one(document_of(write)))
    if write.is_removal:
        return bool((await records.delete_one(expected_by(write))).deleted_count)
    try:
        return bool((await records.update_one(expected_by(write), {"$set": changes_of(write)})).matched_count)
    except DuplicateKeyError:
        return False
