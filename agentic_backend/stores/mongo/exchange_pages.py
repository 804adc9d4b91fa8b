"""Pages of exchanges in MongoDB: those that count, as their session says, which is read first."""

from collections.abc import Collection

from agentic_backend.stores.exchange_pages import ACTIVITIES_PER_EXCHANGE, LEFT_OUT, ExchangePage
from agentic_backend.stores.mongo.documents import UNENDED, WITHOUT_STATE, Database, Document, record_in, session_in
from agentic_backend.stores.mongo.operations import Part, operation
from agentic_backend.stores.mongo.settling import as_of
from agentic_backend.stores.tables import ACTIVITIES
from agentic_backend.stores.trail import ActivityRecord

_SHOWN = WITHOUT_STATE | dict.fromkeys(LEFT_OUT, 0)
# Documents in one read: little more is read than fits.
_AT_ONCE = 50


class ExchangePages(Part):
    @operation
    async def exchanges_from(
        self, database: Database, session_id: str, from_rank: int, limit: int, max_bytes: int
    ) -> ExchangePage:
        page = ExchangePage()
        session = await database["sessions"].find_one({"_id": session_id})
        if session is None or session_in(session) is None:
            return page
        counted, exchanges = _counted(session), database["exchanges"]
        upwards = exchanges.find({**counted, "first_rank": {"$lte": from_rank}}, {"first_rank": 1})
        first = await upwards.sort("first_rank", -1).limit(1).to_list(None)
        wanted = {**counted, "first_rank": {"$gte": first[0]["first_rank"] if first else 0}}
        while True:
            rows = await exchanges.find(wanted, _SHOWN).sort("first_rank", 1).limit(_AT_ONCE).to_list(None)
            for row in rows:
                if not page.takes({**as_of(session, row), "id": row["_id"]}, limit, max_bytes):
                    return page
            if len(rows) < _AT_ONCE:
                return page
            wanted["first_rank"] = {"$gt": rows[-1]["first_rank"]}

    @operation
    async def activities_of(self, database: Database, exchange_ids: Collection[str]) -> list[ActivityRecord]:
        wanted = {"exchange_id": {"$in": list(exchange_ids)}}
        kept: dict[str, list[ActivityRecord]] = {}
        for row in await database["activities"].find(wanted).sort([("exchange_id", 1), ("seq", 1)]).to_list(None):
            own = kept.setdefault(row["exchange_id"], [])
            if len(own) < ACTIVITIES_PER_EXCHANGE:
                own.append(record_in(ACTIVITIES, row))
        return [activity for own in kept.values() for activity in own]


def _counted(session: Document) -> Document:
    """The conditions on the exchanges of `session` that count: see settling."""
    ended = None if session["ended"] is None else session["ended"]["exchange_id"]
    current = [each for each in (session["active_exchange_id"], ended) if each is not None]
    return {"session_id": session["_id"], "$or": [{"status": {"$nin": UNENDED}}, {"_id": {"$in": current}}]}
