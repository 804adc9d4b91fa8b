"""SessionExport: writes one session of a user as a file, in Markdown or in JSON, a page of messages at a time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

from pydantic_core import to_json

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.auth.user import User
from agentic_backend.errors import SessionNotFound
from agentic_backend.protocol.parts import Value
from agentic_backend.sessions.reading.exchange_pages import ExchangePages, ListedExchange
from agentic_backend.sessions.reading.markdown_transcript import MarkdownTranscript
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import MessageRecord, SessionRecord
from agentic_backend.stores.rows import rfc3339

VERSION = 1
_ROWS, _BYTES, _EXCHANGES = 200, 1024 * 1024, 50


T = TypeVar("T")


class SessionExport:
    """Each method is given the session as its user reads it; what is added to it afterwards is left out.

    Raises SessionNotFound if the session is deleted meanwhile: what was written until then is not all of it.
    """

    def __init__(self, store: Store, exchange_pages: ExchangePages, agents: AgentManager) -> None:
        self._store = store
        self._exchange_pages = exchange_pages
        self._agents = agents

    async def markdown(self, session: SessionRecord) -> AsyncIterator[bytes]:
        """The session for people."""
        transcript = MarkdownTranscript(self._agents.name_of)
        yield transcript.heading(session, self._store.now()).encode()
        async for page in self._pages(session):
            # In a thread, because a page may have much text.
            yield await asyncio.to_thread(transcript.messages, page)

    async def json(
        self, user: User, session: SessionRecord, view: Callable[[ListedExchange], Value]
    ) -> AsyncIterator[bytes]:
        """The session for machines: `{version, at, session, exchanges, messages}`, with this view of an exchange."""
        opening = to_json({"version": VERSION, "at": rfc3339(self._store.now()), "session": session.shown()})
        yield opening[:-1] + b',"exchanges":['
        async for piece in _listed(self._exchanges(user, session), view):
            yield piece
        yield b'],"messages":['
        async for piece in _listed(self._pages(session), MessageRecord.shown):
            yield piece
        yield b"]}\n"

    async def _pages(self, session: SessionRecord) -> AsyncIterator[list[MessageRecord]]:
        rank = -1
        while rank + 1 < session.next_rank:
            page = await self._store.messages_after(session.id, rank, _ROWS, _BYTES)
            if not page:
                raise SessionNotFound
            rank = page[-1].rank
            yield [message for message in page if message.rank < session.next_rank]

    async def _exchanges(self, user: User, session: SessionRecord) -> AsyncIterator[list[ListedExchange]]:
        rank: int | None = 0
        while rank is not None and rank < session.next_rank:
            page = await self._exchange_pages.page(user, session.id, rank, _EXCHANGES)
            rank = page.next_rank
            yield [each for each in page.exchanges if each.record.first_rank < session.next_rank]


async def _listed(pages: AsyncIterator[Sequence[T]], view: Callable[[T], Value]) -> AsyncIterator[bytes]:
    """The items of a list in JSON, with commas between them."""
    comma = b""
    async for page in pages:
        if page:
            yield comma + b",".join(to_json(view(each)) for each in page)
            comma = b","
