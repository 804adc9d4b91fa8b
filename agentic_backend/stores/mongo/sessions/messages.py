"""Reads messages from MongoDB: those with a rank below their session's `next_rank`, which is read first.

They are written with their exchange.
"""

from collections.abc import Iterable, Sequence

from agentic_backend.stores.lineage import Span, spans_of
from agentic_backend.stores.mongo.documents import Database, Document, record_in
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.mongo.sessions.sessions import session_with
from agentic_backend.stores.records import MessageRecord
from agentic_backend.stores.rows import row_bytes, with_first
from agentic_backend.stores.tables import MESSAGES

# Messages in the first read of a limited number of bytes.
_FIRST_ROWS = 16


async def messages_between(database: Database, exchange_id: str, rank: int, end: int) -> list[MessageRecord]:
    """The exchange's messages from `rank` on and below `end`, which is at most their session's `next_rank`."""
    return _messages(await _rows(database, {"exchange_id": exchange_id, "rank": {"$gte": rank, "$lt": end}}))


class Messages(Part):
    @operation
    async def exchange_messages(
        self, database: Database, exchange_id: str, max_bytes: int | None = None
    ) -> list[MessageRecord]:
        exchange = await database["exchanges"].find_one({"_id": exchange_id}, {"session_id": 1})
        session = None if exchange is None else await session_with(database, exchange["session_id"])
        if session is None:
            return []
        counted = {"exchange_id": exchange_id, "rank": {"$lt": session.next_rank}}
        if max_bytes is None:
            return _messages(await _rows(database, counted))
        first = await _rows(database, counted, 1)
        last = (await _fitting_rows(database, counted, 0, max_bytes, newest_first=True))[::-1]
        return _messages(with_first(first, last))

    @operation
    async def messages_after(
        self, database: Database, session_id: str, after_rank: int, limit: int, max_bytes: int | None = None
    ) -> list[MessageRecord]:
        session = await session_with(database, session_id)
        if session is None or limit < 1:
            return []
        counted = within(spans_of(session), after_rank + 1, session.next_rank)
        if max_bytes is None:
            return _messages(await _rows(database, counted, limit))
        return _messages(await _fitting_rows(database, counted, limit, max_bytes))

    @operation
    async def last_exchanges(
        self, database: Database, session_id: str, count: int, max_bytes: int | None = None
    ) -> list[MessageRecord]:
        # Exchanges are contiguous in rank, the active one last: the ended ones are one range of ranks.
        session = await session_with(database, session_id)
        if session is None or count < 1:
            return []
        spans = spans_of(session)
        counted = within(spans, 0, session.next_rank, "first_rank")
        exchanges = database["exchanges"].find(counted, {"first_rank": 1}).sort("first_rank", -1).limit(count + 1)
        rank_of = {exchange["_id"]: exchange["first_rank"] for exchange in await exchanges.to_list(None)}
        end = rank_of.pop(session.active_exchange_id, session.next_rank)
        first_ranks = list(rank_of.values())[:count]
        if not first_ranks:
            return []
        theirs = within(spans, first_ranks[-1], end)
        if max_bytes is None:
            return _messages(await _rows(database, theirs))
        rows = (await _fitting_rows(database, theirs, 0, max_bytes, newest_first=True))[::-1]
        if sum(map(row_bytes, rows)) > max_bytes:
            return []
        # The beginning of the oldest exchange in `rows` may not fit.
        whole_from = min((rank for rank in first_ranks if rank >= rows[0]["rank"]), default=end) if rows else end
        return _messages(row for row in rows if row["rank"] >= whole_from)


def within(spans: Sequence[Span], from_rank: int, below_rank: int, rank: str = "rank") -> Document:
    """The conditions for rows of `spans` from one rank up to, but without, another; `rank` is the field to compare."""
    ranges: list[Document] = [
        {
            "session_id": span.session_id,
            rank: {"$gte": max(from_rank, span.from_rank), "$lt": min(below_rank, span.below_rank)},
        }
        for span in spans
        if from_rank < span.below_rank and span.from_rank < below_rank
    ]
    return {"$or": ranges} if len(ranges) > 1 else ranges[0] if ranges else {"_id": None}


def _messages(rows: Iterable[Document]) -> list[MessageRecord]:
    return [record_in(MESSAGES, row) for row in rows]


async def _rows(
    database: Database, conditions: Document, limit: int = 0, *, newest_first: bool = False
) -> list[Document]:
    # `search_text` would only repeat the texts.
    found = database["messages"].find(conditions, {"search_text": 0})
    return await found.sort("rank", -1 if newest_first else 1).limit(limit).to_list(None)


async def _fitting_rows(
    database: Database, conditions: Document, limit: int, max_bytes: int, *, newest_first: bool = False
) -> list[Document]:
    """The first rows that fit into `max_bytes`, at least one; a `limit` of 0 is no limit.

    Reads a few at first; their size shows how many more are worth reading.
    """
    rows: list[Document] = []
    size, count = 0, _FIRST_ROWS
    while True:
        wanted = min(count, limit - len(rows)) if limit else count
        read = await _rows(database, conditions, wanted, newest_first=newest_first)
        for row in read:
            size += row_bytes(row)
            if size > max_bytes and rows:
                return rows
            rows.append(row)
        if len(read) < wanted or len(rows) == limit:
            return rows
        place = {"$lt" if newest_first else "$gt": rows[-1]["rank"]}
        conditions = {**conditions, "rank": {**conditions.get("rank", {}), **place}}
        count = min(4 * count, (max_bytes - size) * len(rows) // max(size, 1) + 1)
