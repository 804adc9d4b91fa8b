"""Figures over KPI records as aggregation pipelines, which return one document per bucket.

FerretDB 1.x lacks parts of pipelines, and documents of an older schema lack the fields that they aggregate. Then the
records are read in batches, and a thread aggregates them.
"""

import asyncio

from pymongo.errors import OperationFailure

from agentic_backend.stores.base import took_too_long
from agentic_backend.stores.mongo.documents import Database, Document, document, record_in
from agentic_backend.stores.mongo.driver import UNKNOWN_TO_SERVER, aggregated
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.mongo.sessions.finishing import Finishing
from agentic_backend.stores.protocol.kpi_figures import PERCENTILES, Aggregation, KpiBucket, KpiGathering, KpiQuery
from agentic_backend.stores.records import KpiRecord
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.tables import KPI_RECORDS

# KPI records per batch, if a thread aggregates them.
_GATHERED = 1_000

Key = tuple[int, tuple[str | None, ...]]


class Kpis(Part):
    finishing: Finishing

    @operation
    async def record_kpi(self, database: Database, record: KpiRecord) -> None:
        # A caller whose answer got lost records it again.
        kept = document(KPI_RECORDS, record)
        await database["kpi_records"].replace_one({"_id": kept["_id"]}, kept, upsert=True)

    @operation
    async def kpi_record(self, database: Database, exchange_id: str) -> KpiRecord | None:
        await self.finishing.all()
        found = await database["kpi_records"].find_one({"_id": exchange_id})
        return None if found is None else record_in(KPI_RECORDS, found)

    async def kpi_figures(self, query: KpiQuery) -> list[KpiBucket]:
        await self.finishing.all()
        return await self.driver.run("kpi_figures", lambda database: _figures(database, query), late=took_too_long)


async def _figures(database: Database, query: KpiQuery) -> list[KpiBucket]:
    picked: Document = {"started_at": {"$gte": rfc3339(query.start), "$lt": rfc3339(query.end)}}
    if query.user_id is not None:
        picked["user_id"] = query.user_id
    if await database["kpi_records"].find_one({**picked, "figures": None}, {"_id": 1}) is None:
        try:
            return await _aggregated(database, picked, query)
        except OperationFailure as error:
            if error.code not in UNKNOWN_TO_SERVER:
                raise
    return await _gathered(database, picked, query)


async def _aggregated(database: Database, picked: Document, query: KpiQuery) -> list[KpiBucket]:
    """The figures by one pipeline for all but percentiles, and one for the percentiles of each field."""
    plain = [a for a in query.aggregations if a.operation not in PERCENTILES]
    buckets = await _buckets(database, picked, query, [], _accumulators(plain))
    for field in dict.fromkeys(a.field for a in query.aggregations if a.operation in PERCENTILES):
        value = f"$figures.{field}"
        ordered: list[Document] = [{"$match": {f"figures.{field}": {"$ne": None}}}, {"$sort": {f"figures.{field}": 1}}]
        wanted = [a for a in query.aggregations if a.field == field and a.operation in PERCENTILES]
        ranks = {a.name.replace(":", "_"): _at_rank(PERCENTILES[a.operation]) for a in wanted}
        found = await _buckets(database, picked, query, ordered, {"values": {"$push": value}}, ranks)
        for key, figures in found.items():
            if key in buckets:
                buckets[key] |= figures
    return [
        KpiBucket(begin, group, tuple(_figure(figures, a) for a in query.aggregations))
        for (begin, group), figures in buckets.items()
    ]


async def _buckets(
    database: Database,
    picked: Document,
    query: KpiQuery,
    before: list[Document],
    accumulators: Document,
    computed: Document | None = None,
) -> dict[Key, Document]:
    """Each bucket's figures, by time and group."""
    at = 0 if query.seconds is None else {"$subtract": ["$at", {"$mod": ["$at", query.seconds]}]}
    keys = {"at": {"$literal": 0} if at == 0 else at, **{name: f"$groups.{name}" for name in query.groupby}}
    order = {f"_id.{name}": 1 for name in keys}
    pipeline: list[Document] = [
        {"$match": picked},
        # A sort keeps all fields in memory, so drop the others first.
        {"$project": {"at": 1, "groups": 1, "figures": 1}},
        *before,
        {"$group": {"_id": keys, **accumulators}},
        {"$sort": order},
        {"$limit": query.limit},
    ]
    if computed is not None:
        pipeline.append({"$project": computed})
    rows = await aggregated(database["kpi_records"], pipeline)
    return {(int(row["_id"]["at"]), tuple(row["_id"].get(name) for name in query.groupby)): row for row in rows}


def _accumulators(aggregations: list[Aggregation]) -> Document:
    made: Document = {}
    for each in aggregations:
        value = f"$figures.{each.field}"
        counted = {"$sum": {"$cond": [{"$eq": [value, None]}, 0, 1]}}
        made[f"{each.field}_count"] = counted
        if each.operation != "count":
            made[f"{each.field}_{each.operation}"] = {{"mean": "$avg"}.get(each.operation, f"${each.operation}"): value}
    return made


def _at_rank(percent: int) -> Document:
    """The percentile of the sorted `values` by nearest rank: the least that so many percent don't exceed."""
    place = {"$ceil": {"$divide": [{"$multiply": [{"$size": "$values"}, percent]}, 100]}}
    return {"$arrayElemAt": ["$values", {"$toInt": {"$max": [0, {"$subtract": [place, 1]}]}}]}


def _figure(figures: Document, aggregation: Aggregation) -> float | None:
    if aggregation.operation == "sum" and not figures[f"{aggregation.field}_count"]:
        # MongoDB's sum of no values is 0.
        return None
    value: float | None = figures.get(f"{aggregation.field}_{aggregation.operation}")
    return value


async def _gathered(database: Database, picked: Document, query: KpiQuery) -> list[KpiBucket]:
    """The figures of records that the database selects and sorts, and a thread aggregates batch by batch."""
    found = database["kpi_records"].find(picked, {"_id": 0, "started_at": 1, "record": 1})
    gathering = KpiGathering(query)
    batch: list[tuple[str, str]] = []
    async for row in found.sort("started_at", 1).batch_size(_GATHERED):
        batch.append((row["started_at"], row["record"]))
        if len(batch) == _GATHERED:
            await asyncio.to_thread(gathering.add, batch)
            batch = []
            if gathering.is_full:
                break
    await asyncio.to_thread(gathering.add, batch)
    return await asyncio.to_thread(gathering.buckets)
