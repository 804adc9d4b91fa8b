"""MongoJournal: deletions as documents of a MongoDB database that is not the server's own, for all instances."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import uuid4

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.journal.deletion import Deletion, deletion_of
from agentic_backend.stores.journal.journal import JournalUnavailable, not_noted
from agentic_backend.stores.mongo.documents import Database, Document
from agentic_backend.stores.mongo.driver import MongoDriver, reason_of
from agentic_backend.stores.rows import rfc3339

T = TypeVar("T")

_DELETIONS, _META, _PAGE = "deletions", "journal", 1_000


class MongoJournal:
    def __init__(self, driver: MongoDriver, place: str) -> None:
        """`place` is the URL without a password."""
        self._driver = driver
        self._place = place
        self._is_known = False

    @property
    def place(self) -> str:
        return self._place

    async def journal_id(self) -> str | None:
        found = await self._read(lambda database: database[_META].find_one({"_id": "id"}))
        return None if found is None else str(found["value"])

    async def append(self, deletions: Sequence[Deletion]) -> None:
        await self._write(lambda database: _insert(database, [_document(each) for each in deletions]))
        self._is_known = True

    async def prove(self) -> None:
        await self._write(_prove)

    async def check(self) -> None:
        await self._read(_prove)

    async def batches(self, since: datetime | None) -> AsyncIterator[Sequence[Deletion]]:
        bounds: Document = {} if since is None else {"at": {"$gte": rfc3339(since)}}
        while True:

            async def page(database: Database, among: Document = bounds) -> list[Document]:
                found = database[_DELETIONS].find(among).sort([("at", 1), ("_id", 1)])
                return await found.limit(_PAGE).to_list(None)

            rows = await self._read(page)
            yield [each for row in rows if (each := deletion_of({**row, "id": row["_id"]})) is not None]
            if len(rows) < _PAGE:
                return
            last = rows[-1]
            bounds = {"$or": [{"at": {"$gt": last["at"]}}, {"at": last["at"], "_id": {"$gt": last["_id"]}}]}

    async def prune(self, before: datetime) -> None:
        await self._read(lambda database: database[_DELETIONS].delete_many({"at": {"$lt": rfc3339(before)}}))

    async def aclose(self) -> None:
        await self._driver.aclose()

    async def _read(self, work: Callable[[Database], Awaitable[T]]) -> T:
        """Raises JournalUnavailable."""
        try:
            return await self._driver.run("journal", work)
        except StoreUnavailable as error:
            raise JournalUnavailable(f"{self._place}: {reason_of(error.__cause__)}") from error

    async def _write(self, work: Callable[[Database], Awaitable[Any]]) -> None:
        async def written(database: Database) -> None:
            if not self._is_known:
                first = {"$setOnInsert": {"value": uuid4().hex}}
                await database[_META].update_one({"_id": "id"}, first, upsert=True)
                await database[_DELETIONS].create_index([("at", 1), ("_id", 1)], name="by_time")
            await work(database)

        try:
            await self._driver.run("journal", written)
        except StoreUnavailable as error:
            raise not_noted() from error


def _document(deletion: Deletion) -> Document:
    values: Document = {"_id": deletion.id, "at": rfc3339(deletion.at), "kind": deletion.kind}
    return {**values, "ids": list(deletion.ids), "within": deletion.within, "only_unsent": deletion.only_unsent}


async def _prove(database: Database) -> None:
    await database[_META].update_one({"_id": "proof"}, {"$set": {"value": uuid4().hex}}, upsert=True)


async def _insert(database: Database, documents: list[Document]) -> None:
    await database[_DELETIONS].insert_many(documents)
