"""Sessions in MongoDB: read, listed, searched, renamed, completed, deleted.

A deletion first clears the session's user, so that the session no longer counts and nothing is added to it; then it
removes its rows, then its document. If the process dies, the next start completes the deletion.
"""

import os
import re
from collections.abc import Sequence
from datetime import datetime

from pymongo import ReturnDocument

from agentic_backend.errors import StoreUnavailable
from agentic_backend.protocol.messages import SessionState
from agentic_backend.stores.base import (
    STATES_KEPT,
    Completion,
    SessionChange,
    SessionPage,
    SessionQuery,
    took_too_long,
)
from agentic_backend.stores.lineage import descendants
from agentic_backend.stores.mongo.documents import Database, Document, document, record_in, session_in
from agentic_backend.stores.mongo.operation_base import Part, operation
from agentic_backend.stores.mongo.sessions.trail import put_trail, remove_trail
from agentic_backend.stores.protocol.message_search import SEARCHED_CHANNEL, MessageSearch
from agentic_backend.stores.protocol.trail import SummaryRecord
from agentic_backend.stores.records import MessageRecord, SessionRecord
from agentic_backend.stores.rows import PROOF_BYTES, folded, rfc3339
from agentic_backend.stores.tables import MESSAGES, SESSIONS, session_tables

_NEWEST_FIRST = [("updated_at", -1), ("_id", -1)]
SEARCHED = 100
"""The sessions of each batch of a search."""
# Matching messages per read.
_HITS = 1_000


async def session_with(database: Database, session_id: str) -> SessionRecord | None:
    return session_in(await database["sessions"].find_one({"_id": session_id}))


async def state_at(database: Database, session_id: str, rank: int | None, above: int = -1) -> Document | None:
    """The document of the session's last state, or of the last one after its messages below `rank`.

    None if that is a state after its messages below `above`, or an earlier one.
    """
    session = await database["sessions"].find_one({"_id": session_id}, {"state_id": 1})
    if session is None or session["state_id"] is None:
        return None
    # The state of the last end counts as soon as the end does.
    conditions: Document = {"session_id": session_id, "$or": [{"_id": session["state_id"]}, {"counts": True}]}
    conditions["rank"] = {"$gt": above} if rank is None else {"$gt": above, "$lte": rank}
    found = await database["session_states"].find(conditions).sort([("rank", -1)]).limit(1).to_list(None)
    if not found or found[0]["_id"] == session["state_id"]:
        return found[0] if found else None
    # Older ones are removed from time to time only.
    newer = {**conditions, "rank": {"$gt": found[0]["rank"]}}
    return found[0] if await database["session_states"].count_documents(newer) < STATES_KEPT else None


class Sessions(Part):
    @operation
    async def create_session(self, database: Database, session: SessionRecord) -> None:
        await database["sessions"].insert_one(document(SESSIONS, session))

    @operation
    async def get_session(self, database: Database, session_id: str) -> SessionRecord | None:
        return await session_with(database, session_id)

    async def list_sessions(self, query: SessionQuery) -> SessionPage:
        late = took_too_long if query.text else StoreUnavailable
        return await self.driver.run("list_sessions", lambda database: _page(database, query), late=late)

    @operation
    async def name_session(self, database: Database, session_id: str, title: str) -> list[SessionRecord]:
        session = await session_with(database, session_id)
        if session is None or not session.unnamed:
            return []
        return await change_family(self, database, session, _titled(title), {"unnamed": True})

    @operation
    async def change_session(self, database: Database, session_id: str, change: SessionChange) -> list[SessionRecord]:
        session = await session_with(database, session_id)
        if session is None:
            return []
        marks = {"pinned": change.pinned, "archived": change.archived}
        changes = {name: value for name, value in marks.items() if value is not None}
        if change.title is not None:
            changes |= _titled(change.title)
        return await change_family(self, database, session, changes, {})

    @operation
    async def complete_session(
        self, database: Database, session_id: str, at: datetime, idle_since: datetime | None = None
    ) -> Completion | None:
        active: Document = {"_id": session_id, "state": SessionState.ACTIVE.value}
        async with self.turn(session_id):
            while (session := await database["sessions"].find_one(active)) is not None:
                is_used = idle_since is not None and session["updated_at"] >= rfc3339(idle_since)
                if is_used or (idle_since is not None and session["active_exchange_id"] is not None):
                    break
                latest = max(rfc3339(at), session["updated_at"])
                changes = {"state": SessionState.COMPLETED.value, "ended_at": latest}
                as_read = {**active, "updated_at": session["updated_at"]}
                if idle_since is None:
                    changes["updated_at"] = latest
                else:
                    as_read["active_exchange_id"] = None
                if (completed := await changed_session(database, as_read, changes)) is not None:
                    return Completion(completed, is_new=True)
            found = await session_with(database, session_id)
            return None if found is None else Completion(found, is_new=False)

    @operation
    async def delete_session(self, database: Database, session_id: str) -> list[str]:
        async with self.turn(session_id):
            return await delete(database, session_id)

    @operation
    async def session_state(self, database: Database, session_id: str, up_to_rank: int | None = None) -> bytes | None:
        found = await state_at(database, session_id, up_to_rank)
        return None if found is None else bytes(found["state"])

    async def find_messages(self, search: MessageSearch) -> list[MessageRecord]:
        return await self.driver.run("find_messages", lambda database: _found(database, search), late=took_too_long)

    @operation
    async def keep_summary(
        self, database: Database, summary: SummaryRecord, session: SessionRecord
    ) -> SessionRecord | None:
        as_read = {
            "_id": session.id,
            "user_id": session.user_id,
            "state": SessionState.ACTIVE.value,
            "next_rank": session.next_rank,
            "reset_rank": session.reset_rank,
            "summary_id": session.summary_id,
            "active_exchange_id": session.active_exchange_id,
            "active_owner": session.active_owner,
        }
        async with self.turn(session.id):
            # First, so that a session never names a summary that is not there.
            await put_trail(database, [summary])
            kept = await changed_session(database, as_read, {"summary_id": summary.id})
            if kept is None and (found := await session_with(database, session.id)) is not None:
                # It may be kept by an attempt whose answer was lost.
                kept = found if found.summary_id == summary.id else None
            if kept is None:
                await remove_trail(database, [summary])
            return kept

    @operation
    async def count_empty_sessions(self, database: Database, user_id: str) -> int:
        return await database["sessions"].count_documents({"user_id": user_id, "next_rank": 0})

    @operation
    async def prove_write(self, database: Database) -> None:
        # Changes a document that exists only for this.
        proof = {"$set": {"proof": os.urandom(PROOF_BYTES)}}
        await database["write_proofs"].update_one({"_id": "proof"}, proof, upsert=True)


async def change_family(
    part: Part, database: Database, session: SessionRecord, changes: Document, conditions: Document
) -> list[SessionRecord]:
    """Change those of the session's family that meet `conditions`; they as they are then, the session first.

    Each in its turn, so the caller may have none.
    """
    others = await database["sessions"].find({"root_id": session.family_id, **conditions}, {"_id": 1}).to_list(None)
    # Without repeats.
    family = dict.fromkeys([session.id, session.family_id, *(other["_id"] for other in others)])
    changed = []
    for member in family:
        async with part.turn(member):
            changed.append(await changed_session(database, {"_id": member, **conditions}, changes))
    return [each for each in changed if each is not None]


async def delete(database: Database, session_id: str) -> list[str]:
    """Delete the session and all that descend from it; the ids of those that were there."""
    goes = {"user_id": None, "state": SessionState.COMPLETED.value, "active_exchange_id": None}
    await database["sessions"].update_one({"_id": session_id}, {"$set": goes})
    # Looked for only now: nothing is forked any more from a session that goes.
    doomed = [*await _descendant_ids(database, session_id), session_id]
    await database["sessions"].update_many({"_id": {"$in": doomed}}, {"$set": goes})
    for collection in collections_of_session():
        await database[collection].delete_many({"session_id": {"$in": doomed}})
    # The session last: by it, whoever completes this finds the others.
    deleted = [(await database["sessions"].delete_one({"_id": each})).deleted_count for each in doomed]
    return [each for each, was_there in zip(doomed, deleted, strict=True) if was_there]


async def _descendant_ids(database: Database, session_id: str) -> list[str]:
    if (found := await database["sessions"].find_one({"_id": session_id}, {"root_id": 1})) is None:
        return []
    root_id = found.get("root_id") or session_id
    # Also those that are being deleted, or forked.
    branches = await database["sessions"].find({"root_id": root_id}).to_list(None)
    return [each.id for each in descendants(session_id, [record_in(SESSIONS, branch) for branch in branches])]


def collections_of_session() -> list[str]:
    """The collections whose documents are deleted with their session."""
    return ["session_states", *(table.name for table in session_tables())]


async def finish_deletions(database: Database) -> None:
    """Complete the deletions of sessions that a dead process has begun."""
    for session in await database["sessions"].find({"user_id": None}, {"_id": 1}).to_list(None):
        await delete(database, session["_id"])


def _titled(title: str) -> Document:
    return {"title": title, "search_title": folded(title), "unnamed": False}


async def changed_session(database: Database, conditions: Document, changes: Document) -> SessionRecord | None:
    found = await database["sessions"].find_one_and_update(
        conditions, {"$set": changes}, return_document=ReturnDocument.AFTER
    )
    return session_in(found)


async def _page(database: Database, query: SessionQuery) -> SessionPage:
    # One session more than the page holds shows whether another page follows.
    wanted = query.limit + 1
    text = folded(query.text) if query.text else None
    place = query.place
    found: list[SessionRecord] = []
    while len(found) < wanted:
        size = wanted if text is None else SEARCHED
        documents = await sessions_behind(database, query, place, size)
        sessions = [session for session in map(session_in, documents) if session is not None]
        found += (
            sessions if text is None else await holding(database, sessions, {"search_text": containing(text)}, [text])
        )
        if len(documents) < size:
            break
        place = sessions[-1].updated_at, sessions[-1].id
    return SessionPage.of(found, query.limit)


async def sessions_behind(
    database: Database, query: SessionQuery, place: tuple[datetime, str] | None, limit: int
) -> list[Document]:
    """The documents of at most `limit` sessions behind `place`, the last updated first, whatever their texts."""
    # A session that is being deleted has no user.
    conditions: Document = {"user_id": {"$ne": None} if query.user_id is None else query.user_id}
    if place is not None:
        at, session_id = rfc3339(place[0]), place[1]
        conditions["$or"] = [{"updated_at": {"$lt": at}}, {"updated_at": at, "_id": {"$lt": session_id}}]
    if query.agent_id is not None:
        conditions["agent_id"] = query.agent_id
    if query.state is not None:
        conditions["state"] = query.state.value
    # Documents of older servers have neither.
    for name, wanted in (("pinned", query.pinned), ("archived", query.archived)):
        if wanted is not None:
            conditions[name] = True if wanted else {"$ne": True}
    return await database["sessions"].find(conditions).sort(_NEWEST_FIRST).limit(limit).to_list(None)


async def _found(database: Database, search: MessageSearch) -> list[MessageRecord]:
    """Searches the user's sessions in batches, the last active first."""
    query, place = SessionQuery(search.user_id), None
    current = await session_with(database, search.not_session or "")
    not_family = current.family_id if current is not None else None
    found: list[MessageRecord] = []
    while len(found) < search.limit:
        documents = await sessions_behind(database, query, place, SEARCHED)
        sessions = [session for session in map(session_in, documents) if session is not None]
        searched = [session for session in sessions if session.family_id != not_family and session.next_rank]
        found += await _holding_words(database, searched, search.folded_words, search.limit)
        if len(documents) < SEARCHED:
            break
        place = sessions[-1].updated_at, sessions[-1].id
    return found[: search.limit]


async def _holding_words(
    database: Database, sessions: Sequence[SessionRecord], words: Sequence[str], limit: int
) -> list[MessageRecord]:
    """The messages of `sessions` that hold all words, in the order of the sessions, the last of each first."""
    if not sessions:
        return []
    conditions: Document = {
        "$or": [{"session_id": session.id, "rank": {"$lt": session.next_rank}} for session in sessions],
        "channel": SEARCHED_CHANNEL.value,
        "$and": [{"search_text": containing(word)} for word in words] or [{}],
    }
    places = {session.id: place for place, session in enumerate(sessions)}
    # Only places first: the order is that of the sessions, which the rows don't have.
    rows = await database["messages"].find(conditions, {"session_id": 1, "rank": 1}).limit(_HITS).to_list(None)
    rows = sorted(rows, key=lambda row: (places[row["session_id"]], -row["rank"]))[:limit]
    whole = await database["messages"].find({"_id": {"$in": [row["_id"] for row in rows]}}).to_list(None)
    by_id = {row["_id"]: row for row in whole}
    return [record_in(MESSAGES, by_id[row["_id"]]) for row in rows if row["_id"] in by_id]


def containing(text: str) -> Document:
    """What a searched text has to match to contain `text`."""
    # MongoDB refuses a NUL in a regular expression, and `re.escape` keeps it.
    return {"$regex": re.escape(text).replace("\x00", r"\x00")}


async def holding(
    database: Database, sessions: Sequence[SessionRecord], of_message: Document, words: Sequence[str]
) -> list[SessionRecord]:
    """The `sessions` with a message that meets `of_message`, or whose title has all `words`, which are case-folded."""
    titles = {session.id: folded(session.title) for session in sessions}
    titled = {session_id for session_id, title in titles.items() if all(word in title for word in words)}
    others = [session for session in sessions if session.id not in titled and session.next_rank]
    texted: set[str] = set()
    while others:
        counted = [{"session_id": session.id, "rank": {"$lt": session.next_rank}} for session in others]
        conditions = {"$or": counted, **of_message}
        rows = await database["messages"].find(conditions, {"_id": 0, "session_id": 1}).limit(_HITS).to_list(None)
        texted |= {row["session_id"] for row in rows}
        # The matches of one session may fill a whole read; then look at the other sessions again.
        others = [session for session in others if session.id not in texted] if len(rows) == _HITS else []
    return [session for session in sessions if session.id in titled | texted]
