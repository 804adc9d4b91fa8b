"""What MongoStore reads. Messages are read by rank below their session's `next_rank`, which is read first.

An exchange that has not ended counts only while its session names it. Where the session names it as ended, its end was
counted, and only its own document doesn't say so yet (see mongo_writes).
"""

import asyncio
import re
from collections.abc import Collection, Sequence
from datetime import datetime

from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import ChatMessage, ExchangeStatus, Session
from agentic_backend.stores.base import Checkpoint, Fence, SessionPage, SessionQuery
from agentic_backend.stores.cursor import cursor_after, place_of
from agentic_backend.stores.kpi_figures import KpiBucket, KpiGathering, KpiQuery
from agentic_backend.stores.mongo_documents import (
    UNENDED,
    WITHOUT_STATE,
    Database,
    Document,
    exchange_in,
    message_in,
    session_in,
)
from agentic_backend.stores.records import ExchangeRecord
from agentic_backend.stores.rows import folded, partial_of, rfc3339, row_bytes, unstored

_NEWEST_FIRST = [("updated_at", -1), ("_id", -1)]
# Sessions whose texts are searched at a time.
_SEARCHED = 100
# Messages that hold the text, which are read at a time.
_HITS = 1_000
# Messages that are read first where only so many bytes are wanted.
_FIRST_ROWS = 16
# KPI records that are read at a time.
_GATHERED = 1_000


async def get_session(database: Database, session_id: str) -> Session | None:
    return session_in(await database["sessions"].find_one({"_id": session_id}))


async def list_sessions(database: Database, query: SessionQuery) -> SessionPage:
    # One session more than the page holds tells whether another page follows.
    wanted = query.limit + 1
    text = folded(query.text) if query.text else None
    place = place_of(query.cursor) if query.cursor is not None else None
    found: list[Session] = []
    while len(found) < wanted:
        size = wanted if text is None else _SEARCHED
        documents = await _sessions_behind(database, query, place, size)
        sessions = [session for session in map(session_in, documents) if session is not None]
        found += sessions if text is None else await _holding(database, sessions, text)
        if len(documents) < size:
            break
        place = sessions[-1].updated_at, sessions[-1].id
    page = found[: query.limit]
    return SessionPage(page, cursor_after(page[-1]) if len(found) > query.limit else None)


async def _sessions_behind(
    database: Database, query: SessionQuery, place: tuple[datetime, str] | None, limit: int
) -> list[Document]:
    conditions: Document = {"user_id": query.user_id}
    if place is not None:
        at, session_id = rfc3339(place[0]), place[1]
        conditions["$or"] = [{"updated_at": {"$lt": at}}, {"updated_at": at, "_id": {"$lt": session_id}}]
    if query.agent_id is not None:
        conditions["agent_id"] = query.agent_id
    if query.state is not None:
        conditions["state"] = query.state.value
    return await database["sessions"].find(conditions).sort(_NEWEST_FIRST).limit(limit).to_list(None)


async def _holding(database: Database, sessions: Sequence[Session], text: str) -> list[Session]:
    """Those of `sessions` whose title or messages hold `text`, which is case-folded."""
    titled = {session.id for session in sessions if text in folded(session.title)}
    others = [session for session in sessions if session.id not in titled and session.next_rank]
    texted: set[str] = set()
    # Of the regular expression's language, an escaped text has no NUL, which MongoDB refuses in one.
    pattern = re.escape(text).replace("\x00", r"\x00")
    while others:
        counted = [{"session_id": session.id, "rank": {"$lt": session.next_rank}} for session in others]
        conditions = {"$or": counted, "search_text": {"$regex": pattern}}
        rows = await database["messages"].find(conditions, {"_id": 0, "session_id": 1}).limit(_HITS).to_list(None)
        texted |= {row["session_id"] for row in rows}
        # One session may have more hits than are read at a time, the others then follow.
        others = [session for session in others if session.id not in texted] if len(rows) == _HITS else []
    return [session for session in sessions if session.id in titled | texted]


async def session_state(database: Database, session_id: str) -> bytes | None:
    while True:
        session = await database["sessions"].find_one({"_id": session_id}, {"state_id": 1})
        if session is None or session["state_id"] is None:
            return None
        state = await database["session_states"].find_one({"_id": session["state_id"]})
        if state is not None:
            return bytes(state["state"])
        # Another one has taken its place in between.


async def get_exchange(database: Database, exchange_id: str) -> ExchangeRecord | None:
    return await _counting(database, await database["exchanges"].find_one({"_id": exchange_id}, WITHOUT_STATE))


async def fence(database: Database, session_id: str) -> Fence | None:
    session = await database["sessions"].find_one({"_id": session_id})
    if session is None or session["active_exchange_id"] is None:
        return None
    after = datetime.fromisoformat(session["updated_at"])
    return Fence(session_id, session["active_exchange_id"], session["next_rank"], session.get("active_owner"), after)


async def partial(database: Database, exchange_id: str) -> list[PartialText]:
    """The text is read first: what is stored in between is left out, and what is kept in between is not read."""
    kept = await database["exchanges"].find_one({"_id": exchange_id}, {"partial": 1, "session_id": 1})
    if kept is None or kept.get("partial") is None:
        return []
    session = await get_session(database, kept["session_id"])
    counted = {"exchange_id": exchange_id, "rank": {"$lt": session.next_rank if session is not None else 0}}
    rows = await database["messages"].find(counted, {"block": 1}).to_list(None)
    return unstored(partial_of(kept["partial"]), [row.get("block") for row in rows])


async def checkpoint(database: Database, exchange_id: str) -> Checkpoint | None:
    record = await get_exchange(database, exchange_id)
    if record is None or record.checkpoint is None:
        return None
    if record.status.ended and not await _can_be_resumed(database, record):
        return None
    document = await database["exchanges"].find_one({"_id": exchange_id}, {"checkpoint": 1})
    if document is None or document["checkpoint"] is None:
        return None
    return Checkpoint(record.checkpoint, bytes(document["checkpoint"]))


async def _can_be_resumed(database: Database, ended: ExchangeRecord) -> bool:
    """Whether it was interrupted and nothing came after it, which may not have dropped its state yet."""
    session = await get_session(database, ended.session_id)
    if session is None or ended.status is not ExchangeStatus.INTERRUPTED:
        return False
    later = {"session_id": session.id, "first_rank": {"$gt": ended.first_rank, "$lt": session.next_rank}}
    return await database["exchanges"].find_one(later, {"_id": 1}) is None


async def find_exchange(database: Database, user_id: str, client_exchange_id: str) -> ExchangeRecord | None:
    asked = {"user_id": user_id, "client_exchange_id": client_exchange_id}
    return await _counting(database, await database["exchanges"].find_one(asked, WITHOUT_STATE))


async def _counting(database: Database, exchange: Document | None) -> ExchangeRecord | None:
    if exchange is None or ExchangeStatus(exchange["status"]).ended:
        return None if exchange is None else exchange_in(exchange)
    session = await database["sessions"].find_one({"_id": exchange["session_id"]})
    if session is not None and session["active_exchange_id"] == exchange["_id"]:
        return exchange_in(exchange)
    if session is not None and has_ended(session, exchange["_id"]):
        return exchange_in({**exchange, **session["ended"]["changes"]})
    # It has never begun; or it has ended since it was read, and the next one too.
    ended = {"_id": exchange["_id"], "status": {"$nin": UNENDED}}
    since = await database["exchanges"].find_one(ended, WITHOUT_STATE)
    return None if since is None else exchange_in(since)


def has_ended(session: Document, exchange_id: str) -> bool:
    return session["ended"] is not None and bool(session["ended"]["exchange_id"] == exchange_id)


async def running_exchanges(
    database: Database, not_of: Collection[str], not_among: Collection[str], limit: int
) -> list[Document]:
    """The documents of what by itself runs, whether it counts or not."""
    running: Document = {"status": ExchangeStatus.RUNNING.value}
    if not_of:
        running["owner"] = {"$nin": list(not_of)}
    if not_among:
        running["_id"] = {"$nin": list(not_among)}
    return await database["exchanges"].find(running, WITHOUT_STATE).limit(limit).to_list(None)


async def running_among(database: Database, owner: str, exchange_ids: Collection[str]) -> set[str]:
    running = {"_id": {"$in": list(exchange_ids)}, "status": ExchangeStatus.RUNNING.value, "owner": owner}
    return {document["_id"] for document in await database["exchanges"].find(running, {"_id": 1}).to_list(None)}


async def expired_exchanges(database: Database, at: datetime, limit: int) -> list[Document]:
    """The documents of what by itself has waited too long, whether it counts or not, the longest due first.

    What waits without a deadline waits on.
    """
    expired = {"status": ExchangeStatus.AWAITING_HUMAN.value, "deadline": {"$lt": rfc3339(at)}}
    found = database["exchanges"].find(expired, WITHOUT_STATE)
    return await found.sort("deadline", 1).limit(limit).to_list(None)


async def count_waiting(database: Database, user_id: str) -> int:
    waiting = {"user_id": user_id, "status": ExchangeStatus.AWAITING_HUMAN.value}
    return await database["exchanges"].count_documents(waiting)


async def count_empty_sessions(database: Database, user_id: str) -> int:
    return await database["sessions"].count_documents({"user_id": user_id, "next_rank": 0})


async def exchange_messages(database: Database, exchange_id: str, max_bytes: int | None) -> list[ChatMessage]:
    exchange = await database["exchanges"].find_one({"_id": exchange_id}, {"session_id": 1})
    session = None if exchange is None else await get_session(database, exchange["session_id"])
    if session is None:
        return []
    counted = {"exchange_id": exchange_id, "rank": {"$lt": session.next_rank}}
    if max_bytes is None:
        return [message_in(row) for row in await _rows(database, counted)]
    last = (await _fitting_rows(database, counted, 0, max_bytes, newest_first=True))[::-1]
    first = await _rows(database, counted, 1)
    is_whole = not last or last[0]["rank"] == first[0]["rank"]
    return [message_in(row) for row in (last if is_whole else [*first, *last])]


async def messages_after(
    database: Database, session_id: str, after_rank: int, limit: int, max_bytes: int | None
) -> list[ChatMessage]:
    session = await get_session(database, session_id)
    if session is None or limit < 1:
        return []
    counted = {"session_id": session_id, "rank": {"$gt": after_rank, "$lt": session.next_rank}}
    if max_bytes is None:
        return [message_in(row) for row in await _rows(database, counted, limit)]
    return [message_in(row) for row in await _fitting_rows(database, counted, limit, max_bytes)]


async def last_exchanges(database: Database, session_id: str, count: int, max_bytes: int | None) -> list[ChatMessage]:
    """Exchanges follow one another by rank, and the one that runs is the last: theirs is one range of ranks."""
    session = await get_session(database, session_id)
    if session is None or count < 1:
        return []
    counted = {"session_id": session_id, "first_rank": {"$lt": session.next_rank}}
    exchanges = database["exchanges"].find(counted, {"first_rank": 1}).sort("first_rank", -1).limit(count + 1)
    rank_of = {exchange["_id"]: exchange["first_rank"] for exchange in await exchanges.to_list(None)}
    end = rank_of.pop(session.active_exchange_id, session.next_rank)
    first_ranks = list(rank_of.values())[:count]
    if not first_ranks:
        return []
    theirs = {"session_id": session_id, "rank": {"$gte": first_ranks[-1], "$lt": end}}
    if max_bytes is None:
        return [message_in(row) for row in await _rows(database, theirs)]
    rows = (await _fitting_rows(database, theirs, 0, max_bytes, newest_first=True))[::-1]
    if sum(map(row_bytes, rows)) > max_bytes:
        return []
    # Of the oldest exchange that was reached, the beginning may not fit.
    whole_from = min((rank for rank in first_ranks if rank >= rows[0]["rank"]), default=end) if rows else end
    return [message_in(row) for row in rows if row["rank"] >= whole_from]


async def _rows(
    database: Database, conditions: Document, limit: int = 0, *, newest_first: bool = False
) -> list[Document]:
    # What is searched is the texts once more.
    found = database["messages"].find(conditions, {"search_text": 0})
    return await found.sort("rank", -1 if newest_first else 1).limit(limit).to_list(None)


async def _fitting_rows(
    database: Database, conditions: Document, limit: int, max_bytes: int, *, newest_first: bool = False
) -> list[Document]:
    """The first rows that fit into `max_bytes`, one at least; `limit` 0 is none.

    A few at first: how large they are tells how many more are worth reading.
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
        conditions = {**conditions, "rank": {**conditions["rank"], **place}}
        count = min(4 * count, (max_bytes - size) * len(rows) // max(size, 1) + 1)


async def kpi_figures(database: Database, query: KpiQuery) -> list[KpiBucket]:
    """The database picks and sorts; the rest is done in a thread, batch by batch.

    A record is a JSON text, into which its pipelines can't look.
    """
    conditions: Document = {"started_at": {"$gte": rfc3339(query.start), "$lt": rfc3339(query.end)}}
    if query.user_id is not None:
        conditions["user_id"] = query.user_id
    found = database["kpi_records"].find(conditions, {"_id": 0, "started_at": 1, "record": 1})
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
