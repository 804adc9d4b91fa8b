"""SessionExport: writes one session of a user as a file, in Markdown or in JSON, a page of messages at a time."""

import asyncio
from collections.abc import AsyncIterator

from pydantic_core import to_json

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.errors import AgentNotFound, AgentUnavailable, SessionNotFound
from agentic_backend.sessions.markdown_transcript import MarkdownTranscript
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import MessageRecord, SessionRecord, shown
from agentic_backend.stores.rows import rfc3339

VERSION = 1
_ROWS, _BYTES = 200, 1024 * 1024


class SessionExport:
    """Each method is given the session as its user reads it; what is added to it afterwards is left out.

    Raises SessionNotFound if the session is deleted meanwhile: what was written until then is not all of it.
    """

    def __init__(self, store: Store, agents: AgentManager) -> None:
        self._store = store
        self._agents = agents

    async def markdown(self, session: SessionRecord) -> AsyncIterator[bytes]:
        """The session for people."""
        transcript = MarkdownTranscript(self._name_of)
        yield transcript.heading(session, self._store.now()).encode()
        async for page in self._pages(session):
            # In a thread, because a page may have much text.
            yield await asyncio.to_thread(transcript.messages, page)

    async def json(self, session: SessionRecord) -> AsyncIterator[bytes]:
        """The session for machines: `{version, at, session, messages}`."""
        opening = to_json({"version": VERSION, "at": rfc3339(self._store.now()), "session": session.shown()})
        yield opening[:-1] + b',"messages":['
        comma = b""
        async for page in self._pages(session):
            yield comma + b",".join(map(to_json, shown(page)))
            comma = b","
        yield b"]}\n"

    async def _pages(self, session: SessionRecord) -> AsyncIterator[list[MessageRecord]]:
        rank = -1
        while rank + 1 < session.next_rank:
            page = await self._store.messages_after(session.id, rank, _ROWS, _BYTES)
            if not page:
                raise SessionNotFound
            rank = page[-1].rank
            yield [message for message in page if message.rank < session.next_rank]

    def _name_of(self, agent_id: str) -> str:
        try:
            return self._agents.entry(agent_id).settings.name
        except (AgentNotFound, AgentUnavailable):
            return agent_id
