"""The trail in MongoDB. Records are written before the messages that they belong to: there are no transactions."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from pymongo import ReplaceOne

from agentic_backend.stores.mongo.documents import Database, Document, document, record_in, stored_name
from agentic_backend.stores.mongo.driver import inserted, together
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.protocol.trail import R, TrailPage, TrailQuery, TrailRecord
from agentic_backend.stores.records import ExchangeRecord
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.tables import TRAIL, Table


async def put_trail(database: Database, records: Sequence[TrailRecord]) -> None:
    """Store the records, whether their sessions exist or not."""
    kinds = groupby(sorted(records, key=lambda one: type(one).__name__), key=type)
    await together(*[_put(database, TRAIL[kind], list(own)) for kind, own in kinds])


async def _put(database: Database, table: Table[Any], records: Sequence[TrailRecord]) -> None:
    kept = [document(table, record) for record in records]
    writes = [ReplaceOne({"_id": each["_id"]}, each, upsert=True) for each in kept]
    # A record that another writer has inserted at the same time can be replaced then.
    while not await inserted(database[table.name].bulk_write(writes)):
        pass


async def remove_trail_of(database: Database, exchange: ExchangeRecord) -> None:
    """Remove the records of an exchange that has never begun, but those that outlive sessions."""
    for table in TRAIL.values():
        if table.of_session and any(column.name == "exchange_id" for column in table.columns):
            of_exchange = {"session_id": exchange.session_id, "exchange_id": exchange.id}
            await database[table.name].delete_many(of_exchange)


async def remove_trail(database: Database, records: Sequence[TrailRecord]) -> None:
    for record in records:
        await database[TRAIL[type(record)].name].delete_one({"_id": record.id})


async def remove_orphans(database: Database, session_id: str, records: Sequence[TrailRecord]) -> None:
    """Remove those of the session's records that go with it, if it is being deleted or is gone."""
    own = [record for record in records if TRAIL[type(record)].of_session]
    if not own:
        return
    session = await database["sessions"].find_one({"_id": session_id}, {"user_id": 1})
    if session is None or session["user_id"] is None:
        await remove_trail(database, own)


class Trail(Part):
    @operation
    async def add_trail(self, database: Database, records: Sequence[TrailRecord]) -> None:
        await put_trail(database, records)
        sessions: dict[str, list[TrailRecord]] = {}
        for record in records:
            if TRAIL[type(record)].of_session:
                sessions.setdefault(getattr(record, "session_id"), []).append(record)  # noqa: B009
        for session_id, own in sessions.items():
            await remove_orphans(database, session_id, own)

    @operation
    async def trail(self, database: Database, query: TrailQuery[R]) -> TrailPage[R]:
        table = TRAIL[query.record]
        names = {column.field: stored_name(table, column.name) for column in table.columns}
        conditions: Document = {names[field]: value for field, value in query.where.items()}
        times = {"$gte": query.since, "$lt": query.until}
        if given := {sign: rfc3339(time) for sign, time in times.items() if time is not None}:
            conditions["at"] = given
        if query.place is not None:
            at, record_id = rfc3339(query.place[0]), query.place[1]
            conditions["$or"] = [{"at": {"$lt": at}}, {"at": at, "_id": {"$lt": record_id}}]
        found = database[table.name].find(conditions).sort([("at", -1), ("_id", -1)]).limit(query.limit + 1)
        return TrailPage.of([record_in(table, row) for row in await found.to_list(None)], query.limit)

    @operation
    async def remove_trail(self, database: Database, record: type[TrailRecord], record_id: str) -> None:
        await database[TRAIL[record].name].delete_one({"_id": record_id})
