"""SessionOrchestrator: begins, continues, finds and stops exchanges for clients.

What happens within an exchange is up to the exchange. Every method that takes a user checks that the named session or
exchange is theirs.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

from agentic_backend.auth.user import Tokens, User
from agentic_backend.errors import (
    ApprovalNotFound,
    BudgetExceeded,
    ExchangeNotFound,
    RateLimited,
    SessionBusy,
    TooManyRuns,
)
from agentic_backend.exchange.launcher import ExchangeLauncher, check_context
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.policy.agents_in_scope import AgentInScope, AgentsInScope
from agentic_backend.policy.hook_context import Point
from agentic_backend.policy.scopes import kept_of
from agentic_backend.policy.session_log import session_created
from agentic_backend.policy.usage_ledger import Payer, paying_group
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.protocol.messages import ExchangeStatus, Session
from agentic_backend.relay.exchange_log import ExchangeLog
from agentic_backend.sessions.access import asked_by, owned_session
from agentic_backend.sessions.ask_rate import AskRate
from agentic_backend.sessions.attached import Attached
from agentic_backend.sessions.attachments import Attachments
from agentic_backend.sessions.exchange_views import ExchangeViews
from agentic_backend.sessions.farewell import Farewell, asks_to_quit
from agentic_backend.sessions.opening_review import Opening, OpeningReview
from agentic_backend.sessions.recovery import Recovery
from agentic_backend.sessions.resumption import Resumption
from agentic_backend.sessions.session_ends import EndReason, SessionEnds
from agentic_backend.sessions.titles import provisional_title
from agentic_backend.sessions.turn import Turn
from agentic_backend.sessions.user_limits import UserLimits
from agentic_backend.sessions.waiting_exchanges import WaitingExchanges
from agentic_backend.stores.base import AlreadyAsked, Written
from agentic_backend.stores.records import ExchangePolicy, ExchangeRecord, MessageRecord, SessionRecord, place
from agentic_backend.tracing.origin import current_origin, written


class SessionOrchestrator:
    def __init__(
        self,
        services: ExchangeServices,
        agents: AgentsInScope,
        *,
        launcher: ExchangeLauncher,
        views: ExchangeViews,
        waiting: WaitingExchanges,
        resumption: Resumption,
        recovery: Recovery,
        user_limits: UserLimits,
        ends: SessionEnds,
        farewell: Farewell,
        attachments: Attachments,
    ) -> None:
        self._instance = services.instance
        self._store = services.store
        self._relay = services.relay
        self._limits = services.limits
        self._profiles = services.profiles
        self._modules = services.modules
        self._review = OpeningReview(services)
        self._agents = agents
        self._launcher = launcher
        self._views = views
        self._waiting = waiting
        self._resumption = resumption
        self._recovery = recovery
        self._user_limits = user_limits
        self._budgets = services.ledger.budgets
        self._kpi = services.kpi
        self._ends = ends
        self._farewell = farewell
        self._attachments = attachments
        self._ask_rate = AskRate(services.limits.asks_per_minute, asyncio.get_running_loop().time)
        """Limits the recent asks of each user."""
        self._admissions: dict[tuple[str, str], asyncio.Task[ExchangeLog]] = {}
        """The exchanges that are about to begin, by user id and the client's id for the exchange."""

    async def ask(self, user: User, turn: Turn, tokens: Tokens | None, request_id: str) -> ExchangeLog:
        """Begin the exchange that `turn` asks for, and return its log. A repeated ask returns the log of the first one.

        Raises a typed error if the ask is refused; nothing is then stored.
        """
        turn.check(self._limits)
        self._profiles().check(turn.chat_profile)
        # An ask without a client's id gets a unique one, which can't be repeated.
        name = (user.id, turn.client_exchange_id or uuid4().hex)
        if (asked_before := self._relay.find_asked(*name)) is not None:
            return await self.view(user, asked_before.exchange_id)
        try:
            return await self._begin_once(name, user, turn, tokens, request_id)
        except (TooManyRuns, RateLimited, BudgetExceeded):
            # The limits don't apply to a repeated ask.
            stored = await self._store.find_exchange(*name) if turn.client_exchange_id is not None else None
            if stored is None:
                raise
            return await self.view(user, stored.id)

    async def _begin_once(
        self, name: tuple[str, str], user: User, turn: Turn, tokens: Tokens | None, request_id: str
    ) -> ExchangeLog:
        """Begin what `turn` asks for; concurrent repetitions share one admission."""
        admission = self._admissions.get(name)
        if admission is None:
            admission = self._relay.admit(user.id, lambda: self._begin(user, turn, tokens, request_id))
            self._admissions[name] = admission
            admission.add_done_callback(lambda _: self._admissions.pop(name, None))
        # Shielded: an admitted exchange starts even if its client disconnects.
        return await asyncio.shield(admission)

    async def human_resume(
        self, user: User, session_id: str | None, exchange_id: str, payload: HumanDecisions, tokens: Tokens | None
    ) -> ExchangeLog:
        """Decide on the requests of a waiting exchange, and return its log. Raises as WaitingExchanges.decide does, and
        BudgetExceeded: the exchange goes on waiting.
        """

        async def decide() -> ExchangeLog:
            await self._check_budget_of(user, exchange_id)
            return await self._waiting.decide(user, session_id, exchange_id, payload, tokens)

        return await self._admit(user, decide)

    async def resume(self, user: User, exchange_id: str, tokens: Tokens | None, request_id: str) -> ExchangeLog:
        """Resume an interrupted exchange, and return the new log. Raises as Resumption.resume does, and TooManyRuns."""

        async def resume() -> ExchangeLog:
            await self._user_limits.check_waiting(user.id)
            await self._check_budget_of(user, exchange_id)
            return await self._resumption.resume(user, exchange_id, tokens, request_id)

        return await self._admit(user, resume)

    async def view(self, user: User, exchange_id: str, session_id: str | None = None) -> ExchangeLog:
        """The log of an exchange; if its events are no longer kept, only its final. Raises ExchangeNotFound."""
        view = await self._views.view(user, exchange_id)
        if session_id not in (None, view.session_id):
            raise ExchangeNotFound
        return view

    async def asked_as(self, user: User, client_exchange_id: str) -> str | None:
        """The id of the user's exchange with this id of the client's, if there is one."""
        asked = self._relay.find_asked(user.id, client_exchange_id)
        if asked is not None:
            return asked.exchange_id
        stored = await self._store.find_exchange(user.id, client_exchange_id)
        return stored.id if stored is not None else None

    async def session_of(self, user: User, exchange: ExchangeLog) -> Session | None:
        """The present state of an exchange's session; None for a query. Raises SessionNotFound."""
        if exchange.session_id is None:
            return None
        return (await owned_session(self._store, user.id, exchange.session_id)).shown()

    async def running_in(self, user: User, session_id: str) -> tuple[Session, ExchangeLog | None]:
        """The user's session, and the log of its running or waiting exchange. Raises SessionNotFound."""
        running = self._relay.running_in(session_id)
        session = await owned_session(self._store, user.id, session_id)
        # Fall back on the exchange that ended during the read: the session's next rank may not include it yet.
        running = self._relay.running_in(session_id) or running
        if running is not None:
            return session.shown(), running.log
        if session.active_exchange_id is None:
            return session.shown(), None
        view = await self._views.view(user, session.active_exchange_id)
        if view.is_stored_final:
            # It has ended during the read: only now does the session's next rank include it.
            return (await owned_session(self._store, user.id, session_id)).shown(), None
        return session.shown(), view

    async def stop(self, user: User, session_id: str | None, exchange_id: str | None) -> ExchangeLog | Session | None:
        """Stop the running or waiting exchange, and return its log; if there is none, the session, or None for a query.

        Raises SessionNotFound or ExchangeNotFound.
        """
        if session_id is not None:
            session = await owned_session(self._store, user.id, session_id)
            running = self._relay.running_in(session_id)
            exchange_id = exchange_id or (running.log.exchange_id if running else session.active_exchange_id)
            if exchange_id is None:
                return (await owned_session(self._store, user.id, session_id)).shown()
        assert exchange_id is not None, "a frame that names nothing is refused"
        log = await self.view(user, exchange_id, session_id)
        if log.final is None and await self._stop(log):
            return log
        # Read only now that nothing runs: its next rank is final.
        return await self.session_of(user, log)

    async def _stop(self, log: ExchangeLog) -> bool:
        """Stop the exchange; False if it has ended."""
        running = self._relay.running(log.exchange_id)
        if running is not None:
            running.stop()
            return True
        record = await self._store.get_exchange(log.exchange_id)
        if record is None or record.status.ended:
            return False
        if record.status is ExchangeStatus.AWAITING_HUMAN:
            try:
                await self._waiting.stop(record)
            except ApprovalNotFound:
                # It has continued since it was read.
                return await self._stop(log)
        else:
            self._relay.stop_elsewhere(record.id)
        return True

    async def _check_budget(self, user: User, scope: Mapping[str, str]) -> None:
        """Raise BudgetExceeded if the user, or the group that pays in this scope, has spent its budget."""
        await self._budgets.check(user.id, paying_group(user.groups, scope))

    async def _check_budget_of(self, user: User, exchange_id: str) -> None:
        """Raise BudgetExceeded if the user, or the group that pays for their exchange, has spent its budget."""
        record = await self._store.get_exchange(exchange_id) if self._budgets else None
        if record is not None and record.user_id == user.id:
            await self._budgets.check(user.id, Payer.of(record).group)

    async def _admit(self, user: User, work: Callable[[], Coroutine[Any, Any, ExchangeLog]]) -> ExchangeLog:
        # Shielded: the work completes even if its client disconnects.
        return await asyncio.shield(self._relay.admit(user.id, work))

    async def _begin(self, user: User, turn: Turn, tokens: Tokens | None, request_id: str) -> ExchangeLog:
        self._ask_rate.count(user.id)
        if turn.mode == "query":
            return self._launcher.launch(await self._query(user, turn, request_id), tokens)
        exchange_id = uuid4().hex
        try:
            with self._relay.claiming(exchange_id):
                start = await self._begin_in_session(user, turn, exchange_id, request_id)
                return self._launcher.launch(start, tokens)
        except AlreadyAsked as already:
            unheard = await self._begun_unheard(user, already.exchange_id)
            if unheard is None:
                return await self.view(user, already.exchange_id)
            return self._launcher.launch(unheard, tokens)

    async def _query(self, user: User, turn: Turn, request_id: str) -> ExchangeStart:
        found = self._agents.get(turn.agent_id, user, turn.scope)
        await self._check_budget(user, found.scope)
        record = self._record(uuid4().hex, user, turn, request_id, found=found, session=None)
        check_context(found.agent, record)
        looked = await self._review.look_at(record, found, None, turn.message)
        [opening] = place([looked.message], session_id=None, exchange_id=record.id, next_rank=0, at=record.started_at)
        self._review.tell(looked)
        start = ExchangeStart(looked.record, found.agent, None, opening, for_author=user.sees_details)
        return replace(start, effective=found.effective, modules=looked.modules)

    async def _begin_in_session(self, user: User, turn: Turn, exchange_id: str, request_id: str) -> ExchangeStart:
        """Begin the exchange in a session. Raises what `begin_exchange` raises, and TooManyRuns."""
        await self._user_limits.check_waiting(user.id)
        session, found = await self._session_for(user, turn)
        is_new, quits = turn.session_id is None, asks_to_quit(turn.parts)
        if not quits:
            await self._check_budget(user, found.scope)
            await self._ends.check_limits(user, session, found.effective, turn.client_exchange_id)
        record = self._record(exchange_id, user, turn, request_id, found=found, session=session)
        check_context(found.agent, record)
        attached = await self._attached(turn, user, session, found)
        looked = Opening(record, turn.message, session)
        if not quits:
            look_at = self._review.look_at
            looked = await look_at(record, found, session, turn.message, attached=attached, is_new=is_new)
        async with self._attachments.sent(turn.attachments, user, session.family_id):
            written = await self._store_beginning(looked, is_new=is_new)
        [opening] = written.messages
        if session.archived:
            self._relay.spawn(self._tell_family(written.session))
        if is_new:
            session_created(written.session)
            self._kpi.sessions.created(written.session.agent_id)
            if quits:
                self._modules.session_event(Point.SESSION_START, written.session, found, user)
        self._review.tell(looked, is_new=is_new)
        started = await self._start(looked.record, found, written.session, opening, user)
        return replace(started, modules=looked.modules)

    async def _attached(self, turn: Turn, user: User, session: SessionRecord, found: AgentInScope) -> Attached:
        """What is attached to `turn`. Raises AlreadyAsked if it was sent before, AttachmentNotFound and BadFrame."""
        if turn.attachments and turn.client_exchange_id is not None:
            # Before a look at the attachments, which have been sent then.
            asked = await self._store.find_exchange(user.id, turn.client_exchange_id)
            if asked is not None:
                raise AlreadyAsked(asked.id)
        return await self._attachments.given_with(turn.attachments, user, session.family_id, found.agent)

    async def _start(
        self, record: ExchangeRecord, found: AgentInScope, session: SessionRecord, opening: MessageRecord, user: User
    ) -> ExchangeStart:
        """The start of an exchange that has begun in the store. The word "quit" completes its session."""
        agent = found.agent
        if asks_to_quit(opening.parts):
            session, agent = await self._ends.end(session.id, EndReason.QUIT, user), self._farewell.agent(agent)
        return ExchangeStart(record, agent, session, opening, effective=found.effective, for_author=user.sees_details)

    async def _tell_family(self, session: SessionRecord) -> None:
        """Tell of the session and its family, which its new exchange has taken out of the archive."""
        for each in await self._store.family(session.family_id):
            self._relay.session_changed(each.shown())

    def _record(
        self,
        exchange_id: str,
        user: User,
        turn: Turn,
        request_id: str,
        *,
        found: AgentInScope,
        session: SessionRecord | None,
    ) -> ExchangeRecord:
        now = self._store.now()
        return ExchangeRecord(
            id=exchange_id,
            session_id=session.id if session is not None else "",
            user_id=user.id,
            agent_id=found.agent.settings.id,
            client_exchange_id=turn.client_exchange_id,
            request_id=request_id,
            first_rank=session.next_rank if session is not None else 0,
            started_at=max(now, session.updated_at) if session is not None else now,
            runtime_context=dict(turn.runtime_context),
            policy=asked_by(user, ExchangePolicy(scope=dict(found.scope), chat_profile=turn.chat_profile)),
            owner=self._instance.id,
            traceparent=written(current_origin().next_span()),
        )

    async def _store_beginning(self, opening: Opening, *, is_new: bool) -> Written:
        """Store the beginning of the exchange, and its session if that is new. Raises what `begin_exchange` raises."""
        exchange, message, new_session = opening.record, opening.message, opening.session if is_new else None
        try:
            return await self._store.begin_exchange(exchange, message, new_session, trail=opening.trail)
        except SessionBusy:
            session = await owned_session(self._store, exchange.user_id, exchange.session_id)
            if not await self._end_if_left(session.active_exchange_id):
                raise
            return await self._store.begin_exchange(exchange, message, new_session, trail=opening.trail)

    async def _end_if_left(self, exchange_id: str | None) -> bool:
        """End an exchange that the store has begun but that never ran, because the store's answer got lost."""
        record = await self._left(exchange_id or "")
        return record is not None and await self._recovery.recover(record)

    async def _begun_unheard(self, user: User, exchange_id: str) -> ExchangeStart | None:
        """The start of an exchange that the store has begun but that never ran, because the store's answer got lost.

        Called only for a repeated ask: repetitions share one admission, so it starts once.
        """
        record = await self._left(exchange_id)
        if record is None:
            return None
        session = await self._store.get_session(record.session_id)
        messages = await self._store.exchange_messages(record.id)
        is_untouched = len(messages) == 1 and self._relay.is_left(record.id)
        if session is None or not is_untouched:
            return None
        return await self._start(record, self._agents.again(record, user), session, messages[0], user)

    async def _left(self, exchange_id: str) -> ExchangeRecord | None:
        """The exchange, if this instance owns it but does not run it."""
        record = await self._store.get_exchange(exchange_id)
        if record is None or record.status is not ExchangeStatus.RUNNING or record.owner != self._instance.id:
            return None
        return record if self._relay.is_left(record.id) else None

    async def _session_for(self, user: User, turn: Turn) -> tuple[SessionRecord, AgentInScope]:
        if turn.session_id is not None:
            session = await owned_session(self._store, user.id, turn.session_id)
            return session, self._agents.get(turn.agent_id or session.agent_id, user, session.scope)
        found, now = self._agents.get(turn.agent_id, user, turn.scope), self._store.now()
        session = SessionRecord(
            id=turn.id_of_new_session(user.id),
            user_id=user.id,
            agent_id=found.agent.settings.id,
            title=provisional_title(turn.text),
            unnamed=True,
            created_at=now,
            updated_at=now,
            chat_profile=turn.chat_profile or found.effective.chat_profile,
            scope=kept_of(user, turn.scope),
        )
        return session, found
