"""SessionEnds: completes sessions, for whatever reason, in one way.

The state is stored first, so that no exchange begins any more. Then what runs is stopped, the session's agents are
closed here, and every instance is told: it shows its clients the change, and closes its own agents of the session. They
are told also where what runs could not be stopped, or where nobody waits for that any more.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.auth.user import User
from agentic_backend.errors import SessionCompleted, SessionNotFound
from agentic_backend.kpi import Kpi
from agentic_backend.policy.scopes.effective import Effective
from agentic_backend.policy.session_log import session_terminated
from agentic_backend.protocol.messages import SessionState
from agentic_backend.relay.relay import Relay
from agentic_backend.sessions.asking.quitting import asks_to_quit
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import ExchangeRecord, SessionRecord

OnEnded = Callable[[SessionRecord, User | None], None]
"""Takes a session that has just been completed, and who has completed it; None is the server itself.

Called once for each session, or never if the process dies just then.
"""


class EndReason(StrEnum):
    ASKED = "asked"
    QUIT = "quit"
    SUBMITTED = "submitted"
    INACTIVE = "inactive"
    MAX_MESSAGES = "max_messages"
    MAX_DURATION = "max_duration_s"
    DELETED = "deleted"


class SessionEnds:
    def __init__(self, store: Store, relay: Relay, factory: AgentFactory, kpi: Kpi, on_ended: OnEnded) -> None:
        self._store = store
        self._relay = relay
        self._factory = factory
        self._kpi = kpi
        self._on_ended = on_ended

    async def end(
        self,
        session_id: str,
        reason: EndReason,
        user: User | None,
        stop: Callable[[], Awaitable[object]] | None = None,
        idle_since: datetime | None = None,
    ) -> SessionRecord:
        """Complete the session, unless it is completed; return it.

        `user` is who asks for it; None is the server itself. `stop` stops what runs in it. With `idle_since`, a session
        with a later message, or in which something runs, is returned as it is. Raises SessionNotFound.
        """
        at = self._store.now()
        completion = await self._store.complete_session(session_id, at, idle_since)
        if completion is None:
            raise SessionNotFound
        session = completion.session
        if session.state is not SessionState.COMPLETED:
            return session
        is_there = True
        try:
            if stop is not None:
                # Also if it was completed before: the request that did so may still wait for the exchange's end.
                await stop()
                stopped = await self._store.get_session(session_id)
                is_there = stopped is not None
                if stopped is None:
                    raise SessionNotFound
                session = stopped
            await self._factory.teardown_session_agents(session_id)
        finally:
            if completion.is_new:
                session_terminated(session, reason.value)
                self._kpi.sessions.ended(reason)
                if is_there:
                    self._relay.session_changed(session.shown())
                self._on_ended(session, user)
        return session

    async def finish_quit(self, exchange: ExchangeRecord) -> None:
        """Complete the session of an exchange that the word "quit" began, if its server died before it did that."""
        opening = await self._store.exchange_messages(exchange.id, 1)
        if opening and asks_to_quit(opening[0].parts):
            with suppress(SessionNotFound):
                await self.end(exchange.session_id, EndReason.QUIT, None)

    async def check_limits(
        self, user: User, session: SessionRecord, effective: Effective, client_exchange_id: str | None = None
    ) -> None:
        """Complete the session, and raise SessionCompleted, if it may take no more messages of its `user`.

        A repeated ask is no message. While something runs, the session is busy, and nothing changes.
        """
        is_closed = session.state is SessionState.COMPLETED or session.active_exchange_id is not None
        if is_closed or not effective.limits_sessions:
            return
        name = client_exchange_id
        if name is not None and await self._store.find_exchange(session.user_id, name) is not None:
            return
        age = max(self._store.now() - session.created_at, timedelta())
        if effective.max_duration_s is not None and age.total_seconds() >= effective.max_duration_s:
            await self._end_at_limit(user, session, EndReason.MAX_DURATION, effective.max_duration_s)
        if effective.max_messages is not None:
            if await self._store.count_asked(session.id, session.next_rank) >= effective.max_messages:
                await self._end_at_limit(user, session, EndReason.MAX_MESSAGES, effective.max_messages)

    async def _end_at_limit(self, user: User, session: SessionRecord, limit: EndReason, value: float) -> None:
        await self.end(session.id, limit, user)
        raise SessionCompleted(f"The session has reached its limit {limit.value} of {value:g}, and is completed.")
