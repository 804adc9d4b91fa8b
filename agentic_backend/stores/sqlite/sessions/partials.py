"""The unfinished texts of running exchanges in SQLite."""

import sqlite3
from collections.abc import Collection, Mapping, Sequence

from pydantic_core import from_json

from agentic_backend.protocol.events import PartialText
from agentic_backend.stores.protocol.partials import PartialPiece, joined
from agentic_backend.stores.rows import json_text, partial_of, unstored
from agentic_backend.stores.sqlite.operation_base import Part, placeholders, reads, writes
from agentic_backend.stores.tables import PARTIAL_PIECES

_KEEP = "UPDATE exchanges SET partial = ? WHERE id = ? AND owner = ? AND status = 'running'"

_ADD = f"""
    INSERT OR REPLACE INTO partial_pieces ({", ".join(PARTIAL_PIECES.names)})
    SELECT {", ".join(f":{name}" for name in PARTIAL_PIECES.names)} WHERE EXISTS (
        SELECT 1 FROM exchanges WHERE id = :exchange_id AND owner = :owner AND status = 'running')
"""

# In one statement, so that a block that is stored meanwhile is left out.
_READ = """
    SELECT partial, (SELECT json_group_array(block) FROM messages WHERE exchange_id = exchanges.id) AS stored,
        (SELECT json_group_array(json(text)) FROM (
            SELECT text FROM partial_pieces
            WHERE exchange_id = exchanges.id AND owner = exchanges.owner ORDER BY number)) AS pieces
    FROM exchanges WHERE id = ?
"""


class Partials(Part):
    @writes
    def keep_partials(self, db: sqlite3.Connection, owner: str, partials: Mapping[str, Sequence[PartialText]]) -> None:
        db.executemany(_KEEP, [(json_text(texts), exchange_id, owner) for exchange_id, texts in partials.items()])

    @writes
    def add_partials(self, db: sqlite3.Connection, pieces: Sequence[PartialPiece]) -> None:
        db.executemany(_ADD, map(PARTIAL_PIECES.row, pieces))

    @writes
    def forget_pieces(self, db: sqlite3.Connection, exchange_ids: Collection[str]) -> None:
        among = placeholders(exchange_ids)
        db.execute(f"DELETE FROM partial_pieces WHERE exchange_id IN ({among})", tuple(exchange_ids))

    @reads
    def partial(self, db: sqlite3.Connection, exchange_id: str) -> list[PartialText]:
        row = db.execute(_READ, (exchange_id,)).fetchone()
        if row is None:
            return []
        texts = joined(partial_of(row["partial"] or "[]"), partial_of(row["pieces"]))
        return unstored(texts, from_json(row["stored"]))
