"""Several writes of records of applications as one batch, in MongoDB without transactions.

A batch has a document of its own, which says that it has `begun`. It prepares each of its records: a document that is
to change or to go gets the batch's id, and what becomes of it; one that is to come is inserted with the revision 0.
None of that counts. If all are as the batch expects them, one write on its document says that it `counts`, and then
each prepared record becomes what it is to be. Whoever comes across the records of a batch that counts completes it; one
that has begun and been left is undone, by removing its document first. So a prepared record whose batch has no document
belongs to one that was undone.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum
from uuid import uuid4

from pymongo import DeleteOne, UpdateOne

from agentic_backend.errors import RecordConflict
from agentic_backend.stores.mongo.documents import Database, Document, document
from agentic_backend.stores.mongo.driver import inserted
from agentic_backend.stores.protocol.application_records import RecordWrite
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.tables import table_of

_BATCHES = "application_batches"
_BEGUN, _COUNTS = "begun", "counts"
_LEFT_S = 60.0
"""A batch that began so long ago, in seconds, has been left: an operation has a shorter timeout."""
_UNPREPARED: Document = {"batch": None, "next": None}
_AT_ONCE = 20


class Way(Enum):
    """What batches of others are in the way of a write: none, some that are at work, or some that are settled now."""

    FREE = "free"
    AT_WORK = "at work"
    SETTLED = "settled"


_Places = Sequence[Sequence[str]]
"""The table and the id of each record of a batch."""


def document_of(write: RecordWrite) -> Document:
    return document(table_of(write.record), write.record)


def changes_of(write: RecordWrite) -> Document:
    return {name: value for name, value in write.changes(document_of(write)).items() if name != "_id"}


def expected_by(write: RecordWrite) -> Document:
    """The conditions on the document that the write changes or removes."""
    of = {"_id": write.record.id, "created_at": rfc3339(write.record.created_at)}
    return {**of, "revision": write.expected, "batch": None}


async def write_batch(database: Database, writes: Sequence[RecordWrite], now: datetime) -> None:
    """Do all of the writes or none. Raises RecordConflict."""
    batch, places = uuid4().hex, [[table_of(each.record).name, each.record.id] for each in writes]
    await database[_BATCHES].insert_one({"_id": batch, "state": _BEGUN, "at": rfc3339(now), "places": places})
    way = Way.FREE
    try:
        is_prepared = await _prepare(database, batch, writes)
        if not is_prepared:
            way = await settle_in_the_way(database, writes, now, but=batch)
        if way is Way.SETTLED:
            await _undo(database, batch, places)
            is_prepared = await _prepare(database, batch, writes)
    except BaseException:
        # As far as the database can be reached; else it is found to be left.
        await _drop(database, batch, places)
        raise
    counts = {"$set": {"state": _COUNTS}}
    if is_prepared and (await database[_BATCHES].update_one({"_id": batch, "state": _BEGUN}, counts)).matched_count:
        await _complete(database, batch, places)
        return
    await _drop(database, batch, places)
    raise RecordConflict(retryable=way is Way.AT_WORK)


async def settle_left(database: Database, now: datetime) -> None:
    """Complete the batches that count, and undo those that were left."""
    batches, seen = database[_BATCHES], set[str]()
    # Those of dead writers may be many.
    while True:
        left = {"$or": [{"state": _COUNTS}, {"at": {"$lt": _left(now)}}], "_id": {"$nin": [*seen]}}
        found = await batches.find(left, {"_id": 1}).limit(_AT_ONCE).to_list(None)
        for batch in found:
            seen.add(batch["_id"])
            await _settle(database, batch["_id"], now)
        if len(found) < _AT_ONCE:
            return


async def settle_found(database: Database, table: str, rows: Sequence[Document], now: datetime) -> bool:
    """Settle the batches that have prepared these documents; whether any is settled now."""
    prepared = {row["batch"]: row["_id"] for row in rows if row["batch"] is not None}
    settled = [await _settle(database, batch, now, [table, row_id]) for batch, row_id in prepared.items()]
    return any(settled)


async def settle_in_the_way(database: Database, writes: Sequence[RecordWrite], now: datetime, but: str = "") -> Way:
    """Settle the batches of others whose documents may be in the way of the writes."""
    met, settled = False, False
    for write in writes:
        record, table = write.record, table_of(write.record).name
        ways = [{"_id": record.id}, {"unique_1": record.unique_1}, {"unique_2": record.unique_2}]
        found = database[table].find({"$or": ways, "batch": {"$nin": [None, but]}}, {"batch": 1})
        rows = await found.to_list(None)
        met |= bool(rows)
        settled |= await settle_found(database, table, rows, now)
    return Way.SETTLED if settled else Way.AT_WORK if met else Way.FREE


async def _settle(database: Database, batch: str, now: datetime, place: Sequence[str] | None = None) -> bool:
    """Complete the batch if it counts, undo it if it was left; False while it is at work.

    It has prepared the document at `place`.
    """
    batches = database[_BATCHES]
    found = await batches.find_one({"_id": batch})
    if found is not None and found["state"] == _BEGUN:
        if found["at"] >= _left(now):
            return False
        if (await batches.delete_one({"_id": batch, "state": _BEGUN})).deleted_count:
            await _undo(database, batch, found["places"])
            return True
        found = await batches.find_one({"_id": batch})
    if found is not None:
        await _complete(database, batch, found["places"])
    elif place is not None:
        # Completed meanwhile, or undone before its writer had prepared this one.
        await _undo(database, batch, [place])
    return True


def _left(now: datetime) -> str:
    return rfc3339(now - timedelta(seconds=_LEFT_S))


async def _prepare(database: Database, batch: str, writes: Sequence[RecordWrite]) -> bool:
    """Whether all records of the writes are as they expect them, and prepared."""
    for table in {table_of(each.record).name for each in writes}:
        own = [each for each in writes if table_of(each.record).name == table]
        new = [document_of(each) | {"revision": 0, "batch": batch} for each in own if each.is_insertion]
        if new and not await inserted(database[table].insert_many(new)):
            return False
        changes = [_preparation(batch, each) for each in own if not each.is_insertion]
        if changes and (await database[table].bulk_write(changes)).matched_count < len(changes):
            return False
    return True


def _preparation(batch: str, write: RecordWrite) -> UpdateOne:
    as_before = {} if write.is_removal else {name: getattr(write.record, name) for name in ("unique_1", "unique_2")}
    becomes = {"removed": True} if write.is_removal else changes_of(write)
    return UpdateOne(expected_by(write) | as_before, {"$set": {"batch": batch, "next": becomes}})


async def _complete(database: Database, batch: str, places: _Places) -> None:
    """Make the prepared records of a batch that counts what they are to be. It can be repeated."""
    for table, ids in _by_table(places).items():
        own = {"_id": {"$in": ids}, "batch": batch}
        changes: list[UpdateOne | DeleteOne] = []
        for row in await database[table].find(own, {"next": 1}).to_list(None):
            prepared = {"_id": row["_id"], "batch": batch}
            if row["next"] is None:
                changes.append(UpdateOne(prepared, {"$set": {"revision": 1, **_UNPREPARED}}))
            elif "removed" in row["next"]:
                changes.append(DeleteOne(prepared))
            else:
                changes.append(UpdateOne(prepared, {"$set": row["next"]}))
        if changes:
            await database[table].bulk_write(changes)
    await database[_BATCHES].delete_one({"_id": batch})


async def _drop(database: Database, batch: str, places: _Places) -> None:
    await database[_BATCHES].delete_one({"_id": batch, "state": _BEGUN})
    await _undo(database, batch, places)


async def _undo(database: Database, batch: str, places: _Places) -> None:
    """Let the records of a batch that does not count be what they were. It can be repeated."""
    for table, ids in _by_table(places).items():
        own: Document = {"_id": {"$in": ids}, "batch": batch}
        await database[table].delete_many(own | {"revision": 0})
        await database[table].update_many(own, {"$set": _UNPREPARED})


def _by_table(places: _Places) -> dict[str, list[str]]:
    tables: dict[str, list[str]] = {}
    for table, record_id in places:
        tables.setdefault(table, []).append(record_id)
    return tables
