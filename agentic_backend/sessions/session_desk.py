"""SessionDesk: a user's sessions as records: open, list, read, rename, complete, cancel, delete.

Every method checks that the session is the user's, and raises SessionNotFound where it is not.
"""

import asyncio
from uuid import uuid4

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.auth.user import User
from agentic_backend.broadcast.exchange_log import ExchangeLog
from agentic_backend.errors import Internal, SessionNotFound
from agentic_backend.protocol.messages import ChatMessage, Session, SessionState
from agentic_backend.sessions.access import owned_exchange, owned_session
from agentic_backend.sessions.bulkhead import Bulkhead
from agentic_backend.sessions.relay import Relay
from agentic_backend.sessions.session_orchestrator import SessionOrchestrator
from agentic_backend.sessions.titles import UNNAMED
from agentic_backend.sessions.user_limits import UserLimits
from agentic_backend.stores.base import SessionPage, SessionQuery, Store
from agentic_backend.stores.records import ExchangeRecord

# Long enough for what an instance ran that has died: somebody ends it once it has missed its lease.
_STOP_S = 60
PAGE_BYTES = 1024 * 1024
"""What a page of messages may have, unless a single message has more."""
# How many searches go on at once, each over all texts of its user, and how long one waits for others.
_SEARCHES_PER_USER, _SEARCHES, _SEARCH_WAIT_S = 1, 2, 5.0


class SessionDesk:
    def __init__(
        self,
        store: Store,
        agents: AgentManager,
        factory: AgentFactory,
        relay: Relay,
        orchestrator: SessionOrchestrator,
        user_limits: UserLimits,
    ) -> None:
        self._store = store
        self._agents = agents
        self._factory = factory
        self._relay = relay
        self._orchestrator = orchestrator
        self._user_limits = user_limits
        content = "Too many of your searches go on; wait until some are answered."
        self._searches = Bulkhead(per_user=_SEARCHES_PER_USER, in_all=_SEARCHES, wait_s=_SEARCH_WAIT_S, content=content)

    async def open(self, user: User, agent_id: str | None, title: str | None, chat_profile: str) -> Session:
        """A new session. Raises AgentNotFound, AgentUnavailable, Forbidden or RateLimited."""
        agent, now = self._agents.get(agent_id, user), self._store.now()
        await self._user_limits.check_empty_sessions(user.id)
        session = Session(
            id=uuid4().hex,
            user_id=user.id,
            agent_id=agent.settings.id,
            title=title or UNNAMED,
            created_at=now,
            updated_at=now,
            chat_profile=chat_profile,
        )
        await self._store.create_session(session)
        return session

    async def page(self, query: SessionQuery) -> SessionPage:
        """Raises BadFrame, and RateLimited where it is a search and too many go on, or it takes too long."""
        if not query.text:
            return await self._store.list_sessions(query)
        async with self._searches.entered(query.user_id):
            return await self._store.list_sessions(query)

    async def get(self, user: User, session_id: str) -> Session:
        return await owned_session(self._store, user.id, session_id)

    async def messages(
        self, user: User, session_id: str, after_rank: int, limit: int
    ) -> tuple[Session, list[ChatMessage]]:
        """The session, and a page of its messages with a rank above `after_rank`, by rank.

        At most `limit`, and as many as fit into PAGE_BYTES, one at least.
        """
        await owned_session(self._store, user.id, session_id)
        messages = await self._store.messages_after(session_id, after_rank, limit, PAGE_BYTES)
        # Read again: where it is still there, none of the messages was missing because it is being deleted.
        return await owned_session(self._store, user.id, session_id), messages

    async def rename(self, user: User, session_id: str, title: str) -> Session:
        await owned_session(self._store, user.id, session_id)
        renamed = await self._store.rename_session(session_id, title)
        if renamed is None:
            raise SessionNotFound
        self._relay.session_changed(renamed)
        return renamed

    async def complete(self, user: User, session_id: str) -> Session:
        """End the session for good: nothing is asked in it any more, and what runs is stopped first."""
        session = await owned_session(self._store, user.id, session_id)
        # First the state, so that no exchange begins between the stop and the end.
        await self._store.complete_session(session_id, self._store.now())
        # Also where it was completed already: whoever completed it may still wait for the end.
        await self._stop(user, session_id)
        await self._factory.teardown_session_agents(session_id)
        completed = await owned_session(self._store, user.id, session_id)
        if session.state is not SessionState.COMPLETED:
            self._relay.session_changed(completed)
        return completed

    async def cancel(self, user: User, session_id: str) -> bool:
        """Stop what runs and wait for its end; whether anything ran."""
        await owned_session(self._store, user.id, session_id)
        return await self._stop(user, session_id)

    async def delete(self, user: User, session_id: str) -> None:
        """Stop what runs, close the session's agents, and remove all that is stored of it."""
        await owned_session(self._store, user.id, session_id)
        await self._store.complete_session(session_id, self._store.now())
        await self._stop(user, session_id)
        await self._factory.teardown_session_agents(session_id)
        await self._store.delete_session(session_id)
        self._relay.forget(session_id)

    async def exchange(self, user: User, exchange_id: str) -> ExchangeRecord:
        return await owned_exchange(self._store, user.id, exchange_id)

    async def _stop(self, user: User, session_id: str) -> bool:
        stopped = await self._orchestrator.stop(user, session_id, None)
        if not isinstance(stopped, ExchangeLog):
            return False
        try:
            async with asyncio.timeout(_STOP_S):
                await stopped.wait_ended()
        except TimeoutError:
            raise Internal("The exchange did not end in time.") from None
        return True
