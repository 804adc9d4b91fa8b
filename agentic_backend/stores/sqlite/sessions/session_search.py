"""The search of sessions in SQLite."""

import sqlite3
from contextlib import closing

from agentic_backend.stores.protocol.session_search import HITS_PER_SESSION, FoundPage, SessionSearch
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.sqlite.operation_base import Part
from agentic_backend.stores.sqlite.sessions.text_search import TextSearch


class SessionSearches(Part):
    async def search_sessions(self, search: SessionSearch) -> FoundPage:
        return await self.searcher.read("search_sessions", lambda db: _page(db, search))


def _page(db: sqlite3.Connection, search: SessionSearch) -> FoundPage:
    condition, parameters = "user_id = :user_id", {"user_id": search.user_id}
    if (place := search.place) is not None:
        condition += " AND (updated_at, id) < (:updated_at, :session_id)"
        parameters |= {"updated_at": rfc3339(place[0]), "session_id": place[1]}
    page, has_room = FoundPage(), True
    texts = TextSearch(db, search.user_id, search.folded_words)
    # One session more than the page holds shows whether another page follows.
    with closing(texts.sessions(condition, parameters, HITS_PER_SESSION)) as sessions:
        for session, messages in sessions:
            if len(page.found) == search.limit or not has_room:
                page.end()
                break
            has_room = page.add(session, messages)
    return page
