"""Pages of exchanges in MongoDB: those that count, as the session says that has them, which is read first."""

from collections.abc import Collection

from agentic_backend.stores.lineage import Span, spans_from
from agentic_backend.stores.mongo.documents import UNENDED, WITHOUT_STATE, Database, Document, record_in, session_in
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.mongo.sessions.settling import as_of
from agentic_backend.stores.protocol.exchange_pages import ACTIVITIES_PER_EXCHANGE, LEFT_OUT, ExchangePage
from agentic_backend.stores.protocol.trail import ActivityRecord
from agentic_backend.stores.tables import ACTIVITIES

_SHOWN = WITHOUT_STATE | dict.fromkeys(LEFT_OUT, 0)
# Documents in one read: little more is read than fits.
_AT_ONCE = 50


class ExchangePages(Part):
    @operation
    async def exchanges_from(
        self, database: Database, session_id: str, from_rank: int, limit: int, max_bytes: int
    ) -> ExchangePage:
        page = ExchangePage()
        session = session_in(await database["sessions"].find_one({"_id": session_id}))
        if session is None:
            return page
        spans = spans_from(session, from_rank)
        owners = database["sessions"].find({"_id": {"$in": [span.session_id for span in spans]}})
        by_id = {owner["_id"]: owner for owner in await owners.to_list(None)}
        for span in spans:
            owner = by_id.get(span.session_id)
            if owner is not None and not await _fill(database, page, owner, span, limit, max_bytes):
                break
        return page

    @operation
    async def activities_of(self, database: Database, exchange_ids: Collection[str]) -> list[ActivityRecord]:
        wanted = {"exchange_id": {"$in": list(exchange_ids)}}
        kept: dict[str, list[ActivityRecord]] = {}
        for row in await database["activities"].find(wanted).sort([("exchange_id", 1), ("seq", 1)]).to_list(None):
            own = kept.setdefault(row["exchange_id"], [])
            if len(own) < ACTIVITIES_PER_EXCHANGE:
                own.append(record_in(ACTIVITIES, row))
        return [activity for own in kept.values() for activity in own]


async def _fill(
    database: Database, page: ExchangePage, owner: Document, span: Span, limit: int, max_bytes: int
) -> bool:
    """Add the exchanges of `owner` from the one that has the first rank of `span` on; False: the page is complete."""
    counted, exchanges = _counted(owner), database["exchanges"]
    upwards = exchanges.find({**counted, "first_rank": {"$lte": span.from_rank}}, {"first_rank": 1})
    first = await upwards.sort("first_rank", -1).limit(1).to_list(None)
    ranks = {"$gte": first[0]["first_rank"] if first else span.from_rank, "$lt": span.below_rank}
    while True:
        wanted = {**counted, "first_rank": ranks}
        rows = await exchanges.find(wanted, _SHOWN).sort("first_rank", 1).limit(_AT_ONCE).to_list(None)
        for row in rows:
            if not page.takes({**as_of(owner, row), "id": row["_id"]}, limit, max_bytes):
                return False
        if len(rows) < _AT_ONCE:
            return True
        ranks = {"$gt": rows[-1]["first_rank"], "$lt": span.below_rank}


def _counted(session: Document) -> Document:
    """The conditions on the exchanges of `session` that count: see settling."""
    ended = None if session["ended"] is None else session["ended"]["exchange_id"]
    current = [each for each in (session["active_exchange_id"], ended) if each is not None]
    return {"session_id": session["_id"], "$or": [{"status": {"$nin": UNENDED}}, {"_id": {"$in": current}}]}
