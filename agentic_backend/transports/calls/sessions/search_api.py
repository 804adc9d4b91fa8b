"""The REST call that searches the caller's sessions and shows where the words were said."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Annotated, Self

from pydantic import Field

from agentic_backend.auth.user import User
from agentic_backend.protocol.messages import Role, Session, Timestamp
from agentic_backend.protocol.parts import Value, absent, text_of
from agentic_backend.sessions.reading.snippets import Piece, marked, snippet_of
from agentic_backend.sessions.session_service import SessionService
from agentic_backend.stores.protocol.session_search import FoundPage, FoundSession, SessionSearch
from agentic_backend.stores.records import MessageRecord
from agentic_backend.transports.rest.operation import PREFIX, Operation
from agentic_backend.transports.rest.query_string import Cursor, PageSize, Query, SearchWords

_WORDS_AT_MOST = 10


class SearchSessions(Query):
    """What to search for, and a page of what is found."""

    q: SearchWords = Field(description="The words to search for, in any case and order; the first ten count.")
    limit: Annotated[int, PageSize(50)] = 20
    cursor: Cursor | None = None


class TextPiece(Value):
    """A piece of a text."""

    text: str
    match: bool
    """Whether it is one of the words that were searched for."""

    @classmethod
    def all_of(cls, pieces: Iterable[Piece]) -> list[Self]:
        return [cls(text=text, match=match) for text, match in pieces]


class SearchHit(Value):
    """A message that has all the words."""

    rank: int
    """Its place in its session."""
    exchange_id: str
    """Its exchange."""
    role: Role
    """Who says it."""
    timestamp: Timestamp
    """When it was stored (RFC 3339, UTC)."""
    snippet: list[TextPiece]
    """Its text around the first of the words, in at most 200 characters; of Markdown the words without its marks."""

    @classmethod
    def of(cls, message: MessageRecord, words: Sequence[str]) -> Self:
        return cls(
            rank=message.rank,
            exchange_id=message.exchange_id,
            role=message.role,
            timestamp=message.timestamp,
            # What people write is no Markdown.
            snippet=TextPiece.all_of(
                snippet_of(text_of(message.parts), words, is_markdown=message.role is not Role.USER)
            ),
        )


class FoundSessionView(Value):
    """A session whose title, or one of whose messages, has all the words."""

    session: Session
    """The session that the messages belong to; for those before a fork that is the branch's parent."""
    title: list[TextPiece]
    """Its title."""
    hits: list[SearchHit]
    """The last three such messages of its user and answers to them, the last one first."""

    @classmethod
    def of(cls, found: FoundSession, words: Sequence[str]) -> Self:
        return cls(
            session=found.session.shown(),
            title=TextPiece.all_of(marked(found.session.title, words)),
            hits=[SearchHit.of(message, words) for message in found.messages],
        )


class SearchView(Value):
    """A page of found sessions. `next_cursor` is for the next page, and absent on the last one."""

    found: list[FoundSessionView]
    next_cursor: str | None = absent()

    @classmethod
    def of(cls, page: FoundPage, words: Sequence[str]) -> Self:
        return cls(found=[FoundSessionView.of(each, words) for each in page.found], next_cursor=page.next_cursor)


class SearchApi:
    def __init__(self, sessions: SessionService) -> None:
        self._sessions = sessions

    def operations(self) -> list[Operation]:
        return [Operation("GET", f"{PREFIX}/search", self.search_sessions)]

    async def search_sessions(self, user: User, query: SearchSessions) -> SearchView:
        """The caller's sessions that have the words, archived ones too, the most recently used first."""
        words = query.q.split()[:_WORDS_AT_MOST]
        search = SessionSearch(user.id, words, query.limit, query.cursor)
        page = await self._sessions.search(search)
        # In a thread: messages may be large.
        return await asyncio.to_thread(SearchView.of, page, search.folded_words)
