"""Items in MongoDB. A write checks the bounds first and then stores the items in order, in as few requests as possible:
there are no transactions.
"""

from collections.abc import Collection, Sequence

from pymongo import DeleteMany, UpdateOne

from agentic_backend.errors import LimitReached
from agentic_backend.stores.mongo.documents import Database, Document, document, record_in
from agentic_backend.stores.mongo.driver import aggregated, inserted
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.protocol.items import ItemBounds, ItemQuery
from agentic_backend.stores.records import ItemRecord
from agentic_backend.stores.tables import ITEMS

_CHANGED = ("value", "value_bytes", "updated_at")


class Items(Part):
    @operation
    async def get_items(self, database: Database, ids: Collection[str]) -> list[ItemRecord]:
        return await _found(database, ids)

    @operation
    async def put_items(
        self, database: Database, items: Sequence[ItemRecord], removed: Collection[str], bounds: ItemBounds
    ) -> None:
        if items:
            before = await _kept(database, items[0].owner)
            replaced = await _found(database, {*removed, *(item.id for item in items)})
            after = (
                before[0] - len(replaced) + len(items),
                before[1] - sum(item.value_bytes for item in replaced) + sum(item.value_bytes for item in items),
            )
            if not bounds.allow(before, after):
                raise LimitReached(bounds.reached)
        writes: list[UpdateOne | DeleteMany] = [_put(document(ITEMS, item)) for item in items]
        if removed:
            writes.append(DeleteMany({"_id": {"$in": list(removed)}}))
        if writes:
            await _write(database, writes)

    @operation
    async def find_items(self, database: Database, query: ItemQuery) -> list[ItemRecord]:
        conditions: Document = {"owner": query.owner}
        if query.prefix:
            first, behind = query.below
            conditions["$or"] = [{"namespace": query.prefix}, {"namespace": {"$gte": first, "$lt": behind}}]
        found = database["items"].find(conditions).sort([("updated_at", -1), ("_id", 1)])
        return [record_in(ITEMS, row) for row in await found.skip(query.offset).limit(query.limit).to_list(None)]

    @operation
    async def item_namespaces(self, database: Database, owner: str) -> list[str]:
        among = [{"$match": {"owner": owner}}, {"$group": {"_id": "$namespace"}}]
        return sorted(row["_id"] for row in await aggregated(database["items"], among))


async def _found(database: Database, ids: Collection[str]) -> list[ItemRecord]:
    rows = await database["items"].find({"_id": {"$in": list(ids)}}).to_list(None)
    return [record_in(ITEMS, row) for row in rows]


async def _kept(database: Database, owner: str) -> tuple[int, int]:
    """The number of the owner's items, and their bytes."""
    # FerretDB 1.x computes a sum of 0, and refuses `distinct` with a timeout.
    rows = await database["items"].find({"owner": owner}, {"_id": 0, "value_bytes": 1}).to_list(None)
    return len(rows), sum(row["value_bytes"] for row in rows)


def _put(kept: Document) -> UpdateOne:
    changes = {name: kept[name] for name in _CHANGED}
    others = {name: value for name, value in kept.items() if name not in (*_CHANGED, "_id")}
    return UpdateOne({"_id": kept["_id"]}, {"$set": changes, "$setOnInsert": others}, upsert=True)


async def _write(database: Database, writes: Sequence[UpdateOne | DeleteMany]) -> None:
    # An item that another writer has inserted at the same time can be updated then.
    while not await inserted(database["items"].bulk_write(writes)):
        pass
