"""ExchangeBeginnings: begins the exchange that a turn asks for: its limits, the modules' review, and the store.

Each method returns what the launcher takes. SessionOrchestrator calls them within an admission of the user's.
"""

from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid4

from agentic_backend.auth.user import User
from agentic_backend.errors import AgenticError, ApprovalNotFound, SessionBusy
from agentic_backend.exchange.launcher import check_context
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.policy.hook_context import Point
from agentic_backend.policy.scopes.agents_in_scope import AgentInScope, AgentsInScope
from agentic_backend.policy.scopes.scopes import kept_of
from agentic_backend.policy.session_log import session_created
from agentic_backend.policy.usage.usage_ledger import may_pay
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.sessions.access import asked_by, owned_session
from agentic_backend.sessions.asking.asked_sessions import AskedSessions
from agentic_backend.sessions.asking.attached import Attached
from agentic_backend.sessions.asking.given_past import images_in, placed_past
from agentic_backend.sessions.asking.opening_review import Opening, OpeningReview
from agentic_backend.sessions.asking.quitting import QuitAgent, asks_to_quit
from agentic_backend.sessions.asking.titles import provisional_title
from agentic_backend.sessions.asking.turn import Turn
from agentic_backend.sessions.asking.user_limits import UserLimits
from agentic_backend.sessions.session_ends import EndReason, SessionEnds
from agentic_backend.sessions.upkeep.recovery import Recovery
from agentic_backend.sessions.users.attachments import Attachments
from agentic_backend.sessions.waiting.waiting_exchanges import WaitingExchanges
from agentic_backend.stores.base import AlreadyAsked, Written
from agentic_backend.stores.records import ExchangePolicy, ExchangeRecord, MessageRecord, SessionRecord, place
from agentic_backend.tracing.origin import current_origin, written


class ExchangeBeginnings:
    def __init__(
        self,
        services: ExchangeServices,
        agents: AgentsInScope,
        asked: AskedSessions,
        *,
        recovery: Recovery,
        user_limits: UserLimits,
        ends: SessionEnds,
        quit_agent: QuitAgent,
        attachments: Attachments,
        waiting: WaitingExchanges,
    ) -> None:
        self._instance = services.instance
        self._store = services.store
        self._relay = services.relay
        self._modules = services.modules
        self._budgets = services.ledger.budgets
        self._kpi = services.kpi
        self._review = OpeningReview(services)
        self._agents = agents
        self._asked = asked
        self._recovery = recovery
        self._user_limits = user_limits
        self._ends = ends
        self._quit_agent = quit_agent
        self._attachments = attachments
        self._waiting = waiting

    async def query(self, user: User, turn: Turn, request_id: str) -> ExchangeStart:
        """Begin a query, of which nothing is stored. Raises as `AgentsInScope.get` does, and BudgetExceeded."""
        found = self._agents.get(turn.agent_id, user, turn.scope)
        await self._check_budget(user, found.scope)
        record = self._record(uuid4().hex, user, turn, request_id, found=found, session=None)
        check_context(found.agent, record)
        files = [*(each for message in turn.history for each in message.files), *turn.files]
        self._attachments.taken([each.record for each in files], found.agent)
        attached = Attached([each.record for each in turn.files], turn.instructions)
        looked = await self._review.look_at(record, found, None, turn.message, attached=attached)
        drafts = await self._review.look_at_past(looked, turn.history)
        [opening] = place([looked.message], session_id=None, exchange_id=record.id, next_rank=0, at=record.started_at)
        self._review.tell(looked)
        start = ExchangeStart(looked.record, found.agent, None, opening, for_author=user.sees_details)
        past, images = placed_past(drafts, record.id, record.started_at), await images_in(files)
        return replace(start, effective=found.effective, modules=looked.modules, past=past, images=images)

    async def in_session(self, user: User, turn: Turn, exchange_id: str, request_id: str) -> ExchangeStart:
        """Begin the exchange in a session, new or not. Raises what `begin_exchange` raises, and TooManyRuns."""
        is_new, quits = turn.session_id is None, asks_to_quit(turn.parts)
        if not quits:
            await self._user_limits.check_waiting(user.id)
        session, found = await self._session_for(user, turn)
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
        if written.was_archived:
            self._relay.spawn(self._tell_family(written.session))
        if is_new:
            session_created(written.session)
            self._kpi.sessions.created(written.session.agent_id)
            if quits:
                self._modules.session_event(Point.SESSION_START, written.session, found, user)
        self._review.tell(looked, is_new=is_new)
        started = await self._start(looked.record, found, written.session, opening, user)
        return replace(started, modules=looked.modules)

    async def left_behind(self, user: User, exchange_id: str) -> ExchangeStart | None:
        """The start of an exchange that has begun in the store, but never ran, because the store's answer got lost.

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

    async def end_left(self, exchange_id: str, refusal: AgenticError) -> None:
        """End an exchange that has begun in the store, but never ran, and that may not run any more."""
        record = await self._left(exchange_id)
        if record is not None:
            with self._relay.claiming(record.id):
                await self._recovery.refuse(record, refusal)

    async def _attached(self, turn: Turn, user: User, session: SessionRecord, found: AgentInScope) -> Attached:
        """What is attached to `turn`. Raises AlreadyAsked if it was sent before, AttachmentNotFound and BadFrame."""
        if turn.attachments and turn.client_exchange_id is not None:
            # Before a look at the attachments, which have been sent then.
            asked = await self._store.find_exchange(user.id, turn.client_exchange_id)
            if asked is not None:
                raise AlreadyAsked(asked.id)
        given = await self._attachments.given_with(turn.attachments, user, session.family_id, found.agent)
        return replace(given, instructions=turn.instructions)

    async def _start(
        self, record: ExchangeRecord, found: AgentInScope, session: SessionRecord, opening: MessageRecord, user: User
    ) -> ExchangeStart:
        """The start of an exchange that has begun in the store. The word "quit" completes its session."""
        agent = found.agent
        if asks_to_quit(opening.parts):
            session, agent = await self._ends.end(session.id, EndReason.QUIT, user), self._quit_agent.agent(agent)
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
            active = session.active_exchange_id or ""
            is_ended = await self._end_if_left(active) or (
                asks_to_quit(message.parts) and await self._stop_waiting(active)
            )
            if not is_ended:
                raise
            return await self._store.begin_exchange(exchange, message, new_session, trail=opening.trail)

    async def _end_if_left(self, exchange_id: str) -> bool:
        """End an exchange that the store has begun but that never ran, because the store's answer got lost."""
        record = await self._left(exchange_id)
        return record is not None and await self._recovery.recover(record)

    async def _stop_waiting(self, exchange_id: str) -> bool:
        """Stop an exchange that waits for a person, who leaves instead; False if it does not wait."""
        record = await self._store.get_exchange(exchange_id)
        if record is None or record.status is not ExchangeStatus.AWAITING_HUMAN:
            return False
        if (pausing := self._relay.running(exchange_id)) is not None:
            # Its pause is stored, but its task does not know yet.
            await pausing.settled.wait()
        try:
            await self._waiting.stop(record)
        except ApprovalNotFound:
            # It has continued since it was read.
            return False
        return True

    async def _left(self, exchange_id: str) -> ExchangeRecord | None:
        """The exchange, if this instance owns it but does not run it."""
        record = await self._store.get_exchange(exchange_id)
        if record is None or record.status is not ExchangeStatus.RUNNING or record.owner != self._instance.id:
            return None
        return record if self._relay.is_left(record.id) else None

    async def _session_for(self, user: User, turn: Turn) -> tuple[SessionRecord, AgentInScope]:
        if turn.session_id is not None:
            return await self._asked.find(user, turn.session_id, turn.agent_id, leaves=asks_to_quit(turn.parts))
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

    async def _check_budget(self, user: User, scope: Mapping[str, str]) -> None:
        """Raise BudgetExceeded if the user, or the group that pays in this scope, has spent its budget."""
        await self._budgets.check(user.id, self._budgets.paying_group(may_pay(user.groups, scope)))
