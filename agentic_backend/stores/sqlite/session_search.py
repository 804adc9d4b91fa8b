"""The search of sessions in SQLite."""

import sqlite3
from collections.abc import Sequence

from agentic_backend.stores.message_search import SEARCHED_CHANNEL
from agentic_backend.stores.records import MessageRecord, SessionRecord
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.session_search import HITS_PER_SESSION, FoundPage, SessionSearch
from agentic_backend.stores.sqlite.operations import Part, select
from agentic_backend.stores.tables import MESSAGES, SESSIONS


class SessionSearches(Part):
    async def search_sessions(self, search: SessionSearch) -> FoundPage:
        return await self.searcher.read("search_sessions", lambda db: _page(db, search))


def _page(db: sqlite3.Connection, search: SessionSearch) -> FoundPage:
    words, page = search.folded_words, FoundPage()
    # One session more than the page holds shows whether another page follows.
    sessions = _sessions(db, search, words)
    for number, session in enumerate(sessions, start=1):
        has_room = page.add(session, _hits(db, session.id, words))
        if number == search.limit or not has_room:
            if number < len(sessions):
                page.end()
            break
    return page


def _sessions(db: sqlite3.Connection, search: SessionSearch, words: Sequence[str]) -> list[SessionRecord]:
    titled, said = _holding("search_title", words), _holding("messages.search_text", words)
    conditions = [
        "user_id = ?",
        f"({titled} OR EXISTS (SELECT 1 FROM messages WHERE messages.session_id = sessions.id"
        f" AND messages.channel = ? AND {said}))",
    ]
    parameters: list[object] = [search.user_id, *words, SEARCHED_CHANNEL.value, *words]
    if (place := search.place) is not None:
        conditions.append("(updated_at, id) < (?, ?)")
        parameters += [rfc3339(place[0]), place[1]]
    order = "ORDER BY updated_at DESC, id DESC LIMIT ?"
    return select(db, SESSIONS, f"{' AND '.join(conditions)} {order}", [*parameters, search.limit + 1])


def _hits(db: sqlite3.Connection, session_id: str, words: Sequence[str]) -> list[MessageRecord]:
    condition = f"session_id = ? AND channel = ? AND {_holding('search_text', words)} ORDER BY rank DESC LIMIT ?"
    return select(db, MESSAGES, condition, [session_id, SEARCHED_CHANNEL.value, *words, HITS_PER_SESSION])


def _holding(column: str, words: Sequence[str]) -> str:
    """The condition that a column holds all words, with a parameter for each."""
    return " AND ".join([f"instr({column}, ?)"] * len(words)) or "TRUE"
