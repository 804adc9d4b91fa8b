"""Branches: sessions that begin like another one and go on differently, to edit a question or to ask it again.

A branch shares the rows of the session that it comes from (see lineage). Its agents start from what that session's had
kept at the first rank of its own, or from the shared messages where nothing is kept any more, and its history is
compacted as it was there. An interrupted exchange can be continued only where it was begun.
"""

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

from agentic_backend.auth.user import User
from agentic_backend.errors import BadFrame, LimitReached, SessionBusy, SessionNotFound
from agentic_backend.kpi import Kpi
from agentic_backend.policy.hook_context import Point
from agentic_backend.policy.hooks.module_supervisor import ModuleSupervisor
from agentic_backend.policy.scopes.agents_in_scope import AgentsInScope
from agentic_backend.policy.session_log import session_created
from agentic_backend.protocol.messages import SessionState
from agentic_backend.relay.relay import Relay
from agentic_backend.sessions.access import owned_session
from agentic_backend.sessions.asking.user_limits import UserLimits
from agentic_backend.stores.base import Store
from agentic_backend.stores.lineage import LARGEST_FAMILY, LONGEST, lineage_at
from agentic_backend.stores.protocol.trail import SummaryRecord, TrailQuery
from agentic_backend.stores.records import ExchangeRecord, SessionRecord


class Branches:
    def __init__(
        self,
        store: Store,
        agents: AgentsInScope,
        relay: Relay,
        user_limits: UserLimits,
        modules: ModuleSupervisor,
        kpi: Kpi,
    ) -> None:
        self._store = store
        self._agents = agents
        self._relay = relay
        self._user_limits = user_limits
        self._modules = modules
        self._kpi = kpi

    async def family(self, user: User, session_id: str) -> list[SessionRecord]:
        """The session, all that it descends from, and all that descends from these; the oldest first."""
        session = await owned_session(self._store, user.id, session_id)
        return await self._store.family(session.family_id)

    async def fork(self, user: User, session_id: str, rank: int) -> SessionRecord:
        """A new branch that shares the session's messages below `rank`, where an exchange begins or would begin next.

        Raises SessionNotFound, SessionBusy, BadFrame, LimitReached, RateLimited, and the errors of `AgentsInScope.get`.
        """
        session = await owned_session(self._store, user.id, session_id)
        found = self._agents.get(session.agent_id, user, session.scope)
        following = await self._exchange_at(session, rank)
        lineage = lineage_at(session, rank)
        if len(lineage) > LONGEST:
            raise LimitReached(f"A branch may come from at most {LONGEST} sessions, one after the other.")
        await self._check_family(user, await self._store.family(session.family_id))
        summary, now = await self._summary_at(session, following), self._store.now()
        branch = replace(
            session,
            id=uuid4().hex,
            state=SessionState.ACTIVE,
            parent=lineage[-1],
            root_id=session.family_id,
            lineage=lineage,
            created_at=now,
            updated_at=now,
            ended_at=None,
            next_rank=rank,
            message_count=rank,
            active_exchange_id=None,
            active_owner=None,
            # What a reset has taken from agents stays taken.
            reset_rank=None if session.reset_rank is None else min(session.reset_rank, rank),
            summary_id=None,
        )
        if summary is not None:
            summary = replace(summary, id=uuid4().hex, session_id=branch.id)
            branch = replace(branch, summary_id=summary.id)
        forked = await self._store.fork_session(branch, summary)
        if forked is None:
            raise SessionNotFound
        session_created(forked)
        self._kpi.sessions.created(forked.agent_id)
        self._modules.session_event(Point.SESSION_START, forked, found, user)
        self._relay.session_changed(forked.shown())
        return forked

    async def _exchange_at(self, session: SessionRecord, rank: int) -> ExchangeRecord | None:
        """The exchange that begins at `rank`; None if that is the session's next rank.

        Raises BadFrame, and SessionBusy if that exchange, or one before it, runs or waits.
        """
        following = await self._store.exchange_at(session, rank)
        if following is None and rank != session.next_rank:
            raise BadFrame("rank: neither the first rank of one of the session's exchanges nor its next rank")
        if session.active_exchange_id is not None and (following is None or following.id == session.active_exchange_id):
            raise SessionBusy
        return following

    async def _check_family(self, user: User, family: Sequence[SessionRecord]) -> None:
        if len(family) >= LARGEST_FAMILY:
            raise LimitReached(f"A session may have at most {LARGEST_FAMILY - 1} branches; delete some of them.")
        empty = [one for one in family if one.parent is not None and 0 < one.parent.rank == one.next_rank]
        await self._user_limits.check_empty_sessions(user.id, len(empty))

    async def _summary_at(self, session: SessionRecord, following: ExchangeRecord | None) -> SummaryRecord | None:
        """The summary that stood for the earlier messages when `following` began; without it, the session's own."""
        if session.summary_id is None:
            return None
        query = TrailQuery(SummaryRecord, {"id": session.summary_id}, limit=1)
        if following is not None:
            # Of the session that began it: a branch has a summary of its own from its fork on, and what it shares
            # with may have got one since that stands for more.
            own = {"session_id": following.session_id}
            query = TrailQuery(SummaryRecord, own, until=following.started_at, limit=1)
        page = await self._store.trail(query)
        return next((one for one in page.records if one.from_rank >= (session.reset_rank or 0)), None)
