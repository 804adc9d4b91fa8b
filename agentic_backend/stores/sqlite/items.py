"""Items in SQLite."""

import sqlite3
from collections.abc import Collection, Sequence

from agentic_backend.errors import LimitReached
from agentic_backend.stores.protocol.items import ItemBounds, ItemQuery
from agentic_backend.stores.records import ItemRecord
from agentic_backend.stores.sqlite.operation_base import Part, lists, placeholders, reads, select, writes
from agentic_backend.stores.tables import ITEMS

_PUT = f"""
    INSERT INTO items ({", ".join(ITEMS.names)}) VALUES ({", ".join(f":{name}" for name in ITEMS.names)})
    ON CONFLICT (id) DO UPDATE
    SET value = excluded.value, value_bytes = excluded.value_bytes, updated_at = excluded.updated_at
"""
_KEPT = "SELECT count(*), coalesce(sum(value_bytes), 0) FROM items WHERE owner = ?"
_FOUND = """owner = :owner AND (:prefix = '' OR namespace = :prefix OR namespace >= :first AND namespace < :behind)
    ORDER BY updated_at DESC, id LIMIT :limit OFFSET :offset"""


class Items(Part):
    @reads
    def get_items(self, db: sqlite3.Connection, ids: Collection[str]) -> list[ItemRecord]:
        return select(db, ITEMS, f"id IN ({placeholders(ids)})", list(ids))

    @writes
    def put_items(
        self, db: sqlite3.Connection, items: Sequence[ItemRecord], removed: Collection[str], bounds: ItemBounds
    ) -> None:
        owner = items[0].owner if items else None
        before = tuple(db.execute(_KEPT, (owner,)).fetchone())
        db.execute(f"DELETE FROM items WHERE id IN ({placeholders(removed)})", list(removed))
        db.executemany(_PUT, [ITEMS.row(item) for item in items])
        if not bounds.allow(before, tuple(db.execute(_KEPT, (owner,)).fetchone())):
            raise LimitReached(bounds.reached)

    @lists
    def find_items(self, db: sqlite3.Connection, query: ItemQuery) -> list[ItemRecord]:
        first, behind = query.below
        place = {"limit": query.limit, "offset": query.offset, "first": first, "behind": behind}
        return select(db, ITEMS, _FOUND, {"owner": query.owner, "prefix": query.prefix, **place})

    @lists
    def item_namespaces(self, db: sqlite3.Connection, owner: str) -> list[str]:
        rows = db.execute("SELECT DISTINCT namespace FROM items WHERE owner = ? ORDER BY namespace", (owner,))
        return [row["namespace"] for row in rows]
