"""Sums over usage records as one pipeline, which returns a document for each sum and currency.

FerretDB 1.x lacks parts of pipelines. Then the records are read in batches, and a thread adds them up.
"""

import asyncio

from pymongo.errors import OperationFailure

from agentic_backend.stores.base import took_too_long
from agentic_backend.stores.mongo.documents import Database, Document
from agentic_backend.stores.mongo.driver import UNKNOWN_TO_SERVER, aggregated
from agentic_backend.stores.mongo.operation_base import Part
from agentic_backend.stores.protocol.usage_sums import UsageAdding, UsageQuery, UsageSum
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.tables import USAGE

# Records per batch, if a thread adds them up.
_ADDED = 1_000
_COLUMNS = {column.field: column.name for column in USAGE.columns}
_FIGURES = ("input_tokens", "output_tokens", "cost")


class Usage(Part):
    async def usage_sums(self, query: UsageQuery) -> list[UsageSum]:
        return await self.driver.run("usage_sums", lambda database: _sums(database, query), late=took_too_long)


async def _sums(database: Database, query: UsageQuery) -> list[UsageSum]:
    picked: Document = {_COLUMNS[name]: value for name, value in query.where.items()}
    times = {"$gte": query.since, "$lt": query.until}
    if given := {sign: rfc3339(time) for sign, time in times.items() if time is not None}:
        picked["at"] = given
    adding = UsageAdding(query)
    try:
        adding.add(await _aggregated(database, picked, query))
    except OperationFailure as error:
        if error.code not in UNKNOWN_TO_SERVER:
            raise
        await _add_all(database, picked, query, adding)
    return await asyncio.to_thread(adding.sums)


async def _aggregated(database: Database, picked: Document, query: UsageQuery) -> list[Document]:
    keys = {name: f"${_COLUMNS[name]}" for name in query.by}
    # FerretDB 1.x adds up plain fields to 0; it refuses an expression.
    figures: Document = {name: {"$sum": {"$ifNull": [f"${name}", 0]}} for name in _FIGURES}
    if query.counts_estimated:
        figures["estimated"] = {"$sum": {"$cond": ["$estimated", 1, 0]}}
    by_currency = {"currency": "$_id.currency", "calls": "$calls", **{name: f"${name}" for name in figures}}
    pipeline: list[Document] = [
        {"$match": picked},
        {"$group": {"_id": {**keys, "currency": "$currency"}, "calls": {"$sum": 1}, **figures}},
        {"$group": {"_id": {name: f"$_id.{name}" for name in keys}, "rows": {"$push": by_currency}}},
        *([{"$sort": {f"_id.{name}": 1 for name in keys}}] if keys else []),
        {"$limit": query.limit},
    ]
    found = await aggregated(database["usage"], pipeline)
    nothing = dict.fromkeys((*query.by, "currency"))
    return [{**nothing, **one["_id"], **row} for one in found for row in one["rows"]]


async def _add_all(database: Database, picked: Document, query: UsageQuery, adding: UsageAdding) -> None:
    estimated = ("estimated",) if query.counts_estimated else ()
    wanted = {name: _COLUMNS[name] for name in (*query.by, "currency", *_FIGURES, *estimated)}
    batch: list[Document] = []
    found = database["usage"].find(picked, {"_id": 0, **dict.fromkeys(wanted.values(), 1)})
    async for row in found.batch_size(_ADDED):
        # Records of an older server lack some.
        batch.append({name: row.get(column) for name, column in wanted.items()})
        if len(batch) == _ADDED:
            await asyncio.to_thread(adding.add, batch)
            batch = []
    await asyncio.to_thread(adding.add, batch)
