"""SessionService: opens, lists, reads, renames, completes, cancels and deletes a user's sessions.

Every method checks that the session is the user's, and raises SessionNotFound if it is not.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from uuid import uuid4

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.auth.user import User
from agentic_backend.config.topics.chat_profiles import ChatProfiles, CurrentProfiles
from agentic_backend.errors import Internal, SessionNotFound
from agentic_backend.exchange.past.compactor import Compactor
from agentic_backend.exchange.run.recent_run_steps import RecentRunSteps
from agentic_backend.kpi import Kpi
from agentic_backend.policy.hook_context import Point
from agentic_backend.policy.hooks.module_supervisor import ModuleSupervisor
from agentic_backend.policy.scopes.agents_in_scope import AgentInScope, AgentsInScope
from agentic_backend.policy.scopes.scopes import kept_of
from agentic_backend.policy.session_log import session_created
from agentic_backend.protocol.messages import ChatMessage, ExchangeStatus, Session, SessionState
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.relay.relay import Relay
from agentic_backend.sessions.access import owned_exchange, owned_messages, owned_session
from agentic_backend.sessions.asking.titles import UNNAMED
from agentic_backend.sessions.asking.user_limits import UserLimits
from agentic_backend.sessions.bulkhead import Bulkhead
from agentic_backend.sessions.session_ends import EndReason, SessionEnds
from agentic_backend.sessions.session_orchestrator import SessionOrchestrator
from agentic_backend.sessions.session_statuses import statuses_of
from agentic_backend.sessions.users.attachments import Attachments
from agentic_backend.stores.base import SessionChange, SessionPage, SessionQuery, Store
from agentic_backend.stores.lineage import descendants
from agentic_backend.stores.protocol.session_search import FoundPage, SessionSearch
from agentic_backend.stores.records import ExchangeRecord, SessionRecord
from agentic_backend.stores.tables import EXCHANGES

# Long enough for an exchange of a dead instance: another instance ends it once the lease has expired.
_STOP_S = 60
# Whoever completes, deletes or submits does not wait for an instance that stands still: nothing begins in the session
# any more, and what runs there can't write without it, or ends with the instance's lease.
_STOP_AT_ONCE_S = 3
_EXCHANGES_PER_READ = _SESSIONS_PER_READ = 100
# How many searches, each over all texts of its user, run at once, and how long in seconds one waits for others.
_SEARCHES_PER_USER, _SEARCHES, _SEARCH_WAIT_S = 1, 2, 5.0


class SessionService:
    def __init__(
        self,
        store: Store,
        agents: AgentsInScope,
        factory: AgentFactory,
        ends: SessionEnds,
        relay: Relay,
        orchestrator: SessionOrchestrator,
        user_limits: UserLimits,
        compactor: Compactor,
        profiles: CurrentProfiles,
        modules: ModuleSupervisor,
        kpi: Kpi,
        attachments: Attachments,
        run_steps: RecentRunSteps,
    ) -> None:
        self._store = store
        self._agents = agents
        self._factory = factory
        self._ends = ends
        self._relay = relay
        self._orchestrator = orchestrator
        self._user_limits = user_limits
        self._compactor = compactor
        self._modules = modules
        self._kpi = kpi
        self._attachments = attachments
        self._run_steps = run_steps
        self._profiles = profiles
        content = "Too many of your searches go on; wait until some are answered."
        self._searches = Bulkhead(per_user=_SEARCHES_PER_USER, in_all=_SEARCHES, wait_s=_SEARCH_WAIT_S, content=content)

    @property
    def chat_profiles(self) -> ChatProfiles:
        """The chat profiles that clients may name."""
        return self._profiles()

    async def open(
        self,
        user: User,
        agent_id: str | None,
        title: str | None,
        chat_profile: str | None,
        scope: Mapping[str, str] | None = None,
        *,
        submission_id: str | None = None,
    ) -> SessionRecord:
        """A new session. Raises AgentNotFound, AgentUnavailable, BadFrame, Forbidden or RateLimited."""
        self._profiles().check(chat_profile)
        named = dict(scope or {})
        found, now = self._agents.get(agent_id, user, named), self._store.now()
        await self._user_limits.check_empty_sessions(user.id)
        session = SessionRecord(
            id=uuid4().hex,
            user_id=user.id,
            agent_id=found.agent.settings.id,
            title=title or UNNAMED,
            unnamed=title is None,
            created_at=now,
            updated_at=now,
            scope=kept_of(user, named),
            submission_id=submission_id,
            chat_profile=chat_profile or found.effective.chat_profile,
        )
        await self._store.create_session(session)
        session_created(session)
        self._kpi.sessions.created(session.agent_id)
        self._relay.tell_lists(user.id, session.id)
        self._modules.session_event(Point.SESSION_START, session, found, user)
        return session

    async def page(self, query: SessionQuery) -> SessionPage:
        """A page of sessions. Raises BadFrame, and RateLimited if too many searches run or one takes too long."""
        if not query.text:
            return await self._store.list_sessions(query)
        async with self._searches.entered(query.user_id or ""):
            return await self._store.list_sessions(query)

    async def statuses(self, sessions: Sequence[SessionRecord]) -> dict[str, ExchangeStatus]:
        """Whether what is active in each of the sessions runs or waits, by session id."""
        return await statuses_of(self._store, sessions)

    async def search(self, search: SessionSearch) -> FoundPage:
        """A page of the user's sessions that have the words. Raises as `page` does."""
        async with self._searches.entered(search.user_id):
            return await self._store.search_sessions(search)

    async def get(self, user: User, session_id: str) -> Session:
        return (await self.record(user, session_id)).shown()

    async def record(self, user: User, session_id: str) -> SessionRecord:
        """The session as it is stored, with its scope and its submission."""
        return await owned_session(self._store, user.id, session_id)

    async def settings_of(self, user: User, session_id: str) -> tuple[Session, AgentInScope]:
        """The session, and its agent with the settings that apply. Raises the errors of `AgentsInScope.seen`."""
        session = await owned_session(self._store, user.id, session_id)
        return session.shown(), self._agents.seen(session.agent_id, user, session.scope)

    async def messages(
        self, user: User, session_id: str, after_rank: int, limit: int
    ) -> tuple[Session, list[ChatMessage]]:
        """See `owned_messages`."""
        return await owned_messages(self._store, user.id, session_id, after_rank, limit)

    async def client_exchange_ids(self, exchange_ids: Collection[str]) -> dict[str, str]:
        """The clients' ids for these exchanges, by exchange id, where they gave one."""
        return await self._store.client_exchange_ids(exchange_ids)

    async def change(self, user: User, session_id: str, change: SessionChange) -> Session:
        """Change the session and its family: its title, and whether they are pinned or archived."""
        await owned_session(self._store, user.id, session_id)
        changed = await self._store.change_session(session_id, change)
        if not changed:
            raise SessionNotFound
        for each in changed:
            self._relay.session_changed(each.shown())
        return changed[0].shown()

    async def complete(self, user: User, session_id: str) -> Session:
        """Complete the session: it takes no more asks, and its running or waiting exchange is stopped."""
        await owned_session(self._store, user.id, session_id)
        stop = partial(self._stopping(user), session_id)
        completed = await self._ends.end(session_id, EndReason.ASKED, user, stop)
        return completed.shown()

    async def complete_submitted(
        self, user: User, assignment_id: str, submission_id: str | None
    ) -> Sequence[SessionRecord]:
        """Complete the user's sessions of an assignment that is submitted: all, or those of one submission.

        A session that was opened without a submission belongs to each.
        """

        def is_in_it(session: SessionRecord) -> bool:
            in_it = self._agents.scope_of(session, user).get("assignment") == assignment_id
            return in_it and (submission_id is None or session.submission_id in (None, submission_id))

        completed: dict[str, SessionRecord] = {}
        stop = self._stopping(user)
        # Again until there is no other: one that is used meanwhile may have moved to a page that was read before.
        while found := [each for each in await self._active(user) if is_in_it(each) and each.id not in completed]:
            for session in found:
                completed[session.id] = session
                with suppress(SessionNotFound):
                    ended = await self._ends.end(session.id, EndReason.SUBMITTED, user, partial(stop, session.id))
                    completed[session.id] = ended
        return [session for session in completed.values() if session.state is SessionState.COMPLETED]

    async def _active(self, user: User) -> Sequence[SessionRecord]:
        """All active sessions of the user."""
        active: list[SessionRecord] = []
        query = SessionQuery(user_id=user.id, state=SessionState.ACTIVE, limit=_SESSIONS_PER_READ)
        while True:
            page = await self._store.list_sessions(query)
            active += page.sessions
            if page.next_cursor is None:
                return active
            query = replace(query, cursor=page.next_cursor)

    async def cancel(self, user: User, session_id: str) -> bool:
        """Stop the running or waiting exchange and wait for its end; False if there was none."""
        await owned_session(self._store, user.id, session_id)
        return await self._stop(user, session_id)

    async def reset_state(self, user: User, session_id: str) -> None:
        """Forget what the session's agents keep: the next exchange of each starts from nothing.

        The messages stay, but none of them is given to an agent again. Raises SessionBusy while something runs or
        waits.
        """
        await owned_session(self._store, user.id, session_id)
        if await self._store.reset_state(session_id) is None:
            raise SessionNotFound

    async def delete(self, user: User, session_id: str) -> None:
        """Stop what runs in the session and in its branches, close their agents, and delete all their data."""
        await owned_session(self._store, user.id, session_id)
        # Before anything is ended for it.
        await self._store.prove_deletion()
        stop = self._stopping(user)
        await self._ends.end(session_id, EndReason.DELETED, user, partial(stop, session_id))
        for branch_id in await self._branch_ids(session_id):
            with suppress(SessionNotFound):
                await self._ends.end(branch_id, EndReason.DELETED, user, partial(stop, branch_id))
        await self.remove(user.id, session_id)

    async def remove(self, user_id: str, session_id: str) -> None:
        """Close the agents of the user's session and its branches, in which nothing runs, and delete all their data."""
        gone = {each: list[str]() for each in (session_id, *await self._branch_ids(session_id))}
        for each in gone:
            await self._factory.teardown_session_agents(each)
            gone[each] = await self._exchange_ids(each)
        # First, so that nothing of them is left without the session that leads to them.
        await self._attachments.remove_of_session(session_id)
        for late in await self._store.delete_session(session_id):
            if late not in gone:
                # It was forked meanwhile.
                await self._factory.teardown_session_agents(late)
                gone[late] = []
        for each, exchange_ids in gone.items():
            self._compactor.forget_session(each)
            self._run_steps.forget_exchanges(exchange_ids)
            self._relay.evict_session(each, exchange_ids)
            self._relay.tell_lists(user_id, each)

    async def _branch_ids(self, session_id: str) -> list[str]:
        """The ids of all sessions that descend from this one."""
        session = await self._store.get_session(session_id)
        family = await self._store.family(session.family_id) if session is not None else []
        return [branch.id for branch in descendants(session_id, family)]

    async def _exchange_ids(self, session_id: str) -> list[str]:
        ids: list[str] = []
        place: int | None = None
        while exchanges := await self._store.page(EXCHANGES, place, _EXCHANGES_PER_READ, session_id=session_id):
            ids += [exchange.id for exchange in exchanges]
            place = exchanges[-1].first_rank
        return ids

    async def exchange(self, user: User, exchange_id: str) -> ExchangeRecord:
        return await owned_exchange(self._store, user.id, exchange_id)

    def _stopping(self, user: User) -> Callable[[str], Awaitable[None]]:
        """Stops what runs in a session, by its id. For all that it is called for, it waits three seconds together."""
        time = asyncio.get_running_loop().time
        until = time() + _STOP_AT_ONCE_S

        async def stop(session_id: str) -> None:
            with suppress(Internal):
                await self._stop(user, session_id, max(until - time(), 0))

        return stop

    async def _stop(self, user: User, session_id: str, patience_s: float = _STOP_S) -> bool:
        """Stop what runs in the session; False if nothing does. Raises Internal if it doesn't end in time."""
        stopped = await self._orchestrator.stop(user, session_id, None)
        if not isinstance(stopped, ExchangeLog):
            return False
        if stopped.final is None and self._relay.running(stopped.exchange_id) is None:
            # A deletion of the user's data may have removed the log before it had a reader: it would hear of no end.
            stopped = self._relay.mirror(session_id, stopped.exchange_id, user.id)
        # As a reader: what runs elsewhere is looked up in the store for readers only.
        reader = stopped.follow(stopped.last_seq, lambda: None)
        try:
            async with asyncio.timeout(patience_s):
                await stopped.wait_ended()
        except TimeoutError:
            raise Internal("The exchange did not end in time.") from None
        finally:
            stopped.unfollow(reader)
        return True
