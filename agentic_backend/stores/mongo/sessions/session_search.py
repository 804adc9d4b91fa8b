"""The search of sessions in MongoDB."""

from collections.abc import Sequence
from typing import Any

from agentic_backend.stores.base import SessionQuery, took_too_long
from agentic_backend.stores.mongo.documents import Database, Document, record_in, session_in
from agentic_backend.stores.mongo.operation_base import Part
from agentic_backend.stores.mongo.sessions.sessions import SEARCHED, containing, holding, sessions_behind
from agentic_backend.stores.protocol.message_search import SEARCHED_CHANNEL
from agentic_backend.stores.protocol.session_search import HITS_PER_SESSION, FoundPage, SessionSearch
from agentic_backend.stores.records import MessageRecord, SessionRecord
from agentic_backend.stores.tables import MESSAGES

_MOST_HITS = 1_000
# Few, because a message may have some megabytes, and a page ends where they are large.
_FETCHED = 4


class SessionSearches(Part):
    async def search_sessions(self, search: SessionSearch) -> FoundPage:
        return await self.driver.run("search_sessions", lambda database: _page(database, search), late=took_too_long)


async def _page(database: Database, search: SessionSearch) -> FoundPage:
    """Searches the user's sessions in batches, the last updated first."""
    words, page = search.folded_words, FoundPage()
    said = _said(words)
    query, place, has_room = SessionQuery(search.user_id), search.place, True
    while True:
        documents = await sessions_behind(database, query, place, SEARCHED)
        sessions = [session for session in map(session_in, documents) if session is not None]
        holders = await holding(database, sessions, said, words)
        hits = _Hits(database, said, holders[: search.limit + 1 - len(page.found)])
        for session in holders:
            if len(page.found) == search.limit or not has_room:
                page.end()
                return page
            has_room = page.add(session, await hits.of(session))
        if len(documents) < SEARCHED:
            return page
        place = sessions[-1].updated_at, sessions[-1].id


class _Hits:
    """The last messages of `sessions` that meet `said`: found in one read, and fetched for a few sessions at a time."""

    def __init__(self, database: Database, said: Document, sessions: Sequence[SessionRecord]) -> None:
        self._messages = database["messages"]
        self._said = said
        self._sessions = sessions
        self._ids: dict[str, list[Any]] | None = None
        self._fetched: dict[str, list[MessageRecord]] = {}

    async def of(self, session: SessionRecord) -> list[MessageRecord]:
        """The last one first, at most HITS_PER_SESSION."""
        if self._ids is None:
            self._ids = await self._found()
        if session.id not in self._ids:
            return await self._read(session)
        if session.id not in self._fetched:
            await self._fetch(session)
        return self._fetched.pop(session.id)

    async def _found(self) -> dict[str, list[Any]]:
        """The ids of each session's last messages, the last one first; empty if there are too many to read."""
        counted = [{"session_id": each.id, "rank": {"$lt": each.next_rank}} for each in self._sessions]
        found = self._messages.find({"$or": counted, **self._said}, {"session_id": 1, "rank": 1}).limit(_MOST_HITS)
        rows = await found.to_list(None)
        if len(rows) == _MOST_HITS:
            return {}
        ids: dict[str, list[Any]] = {each.id: [] for each in self._sessions}
        for row in sorted(rows, key=lambda row: -row["rank"]):
            ids[row["session_id"]].append(row["_id"])
        return {session_id: of_session[:HITS_PER_SESSION] for session_id, of_session in ids.items()}

    async def _fetch(self, session: SessionRecord) -> None:
        """Fetch the messages of this session and the next ones."""
        assert self._ids is not None
        first = self._sessions.index(session)
        some = self._sessions[first : first + _FETCHED]
        ids = [each for session in some for each in self._ids[session.id]]
        rows = await self._messages.find({"_id": {"$in": ids}}).to_list(None) if ids else []
        by_id = {row["_id"]: record_in(MESSAGES, row) for row in rows}
        for each in some:
            # Those of a session that was deleted meanwhile are gone.
            self._fetched[each.id] = [by_id[one] for one in self._ids[each.id] if one in by_id]

    async def _read(self, session: SessionRecord) -> list[MessageRecord]:
        counted = {"session_id": session.id, "rank": {"$lt": session.next_rank}, **self._said}
        rows = await self._messages.find(counted).sort([("rank", -1)]).limit(HITS_PER_SESSION).to_list(None)
        return [record_in(MESSAGES, row) for row in rows]


def _said(words: Sequence[str]) -> Document:
    """The conditions on a message that has all words."""
    return {"channel": SEARCHED_CHANNEL.value, "$and": [{"search_text": containing(word)} for word in words] or [{}]}
