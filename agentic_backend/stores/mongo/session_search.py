"""The search of sessions in MongoDB."""

from collections.abc import Sequence

from agentic_backend.stores.base import SessionQuery, took_too_long
from agentic_backend.stores.message_search import SEARCHED_CHANNEL
from agentic_backend.stores.mongo.documents import Database, Document, record_in, session_in
from agentic_backend.stores.mongo.operations import Part
from agentic_backend.stores.mongo.sessions import SEARCHED, containing, holding, sessions_behind
from agentic_backend.stores.records import MessageRecord, SessionRecord
from agentic_backend.stores.session_search import HITS_PER_SESSION, FoundPage, SessionSearch
from agentic_backend.stores.tables import MESSAGES


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
        for session in await holding(database, sessions, said, words):
            if len(page.found) == search.limit or not has_room:
                page.end()
                return page
            has_room = page.add(session, await _hits(database, session, said))
        if len(documents) < SEARCHED:
            return page
        place = sessions[-1].updated_at, sessions[-1].id


async def _hits(database: Database, session: SessionRecord, said: Document) -> list[MessageRecord]:
    counted = {"session_id": session.id, "rank": {"$lt": session.next_rank}, **said}
    rows = await database["messages"].find(counted).sort([("rank", -1)]).limit(HITS_PER_SESSION).to_list(None)
    return [record_in(MESSAGES, row) for row in rows]


def _said(words: Sequence[str]) -> Document:
    """The conditions on a message that has all words."""
    return {"channel": SEARCHED_CHANNEL.value, "$and": [{"search_text": containing(word)} for word in words] or [{}]}
