"""SessionOrchestrator: from an ask to a running exchange, and what a client may do with it from there.

It admits, finds, stops and follows; what happens within an exchange is the exchange's own. Every method that takes a
user checks that what is named is theirs.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import uuid4

import orjson

from agentic_backend.agents.agent_manager import AgentManager, CatalogAgent
from agentic_backend.auth.user import Tokens, User
from agentic_backend.broadcast.exchange_log import ExchangeLog
from agentic_backend.errors import (
    ApprovalNotFound,
    BadFrame,
    ExchangeNotFound,
    MessageTooLarge,
    RateLimited,
    SessionBusy,
    TooManyRuns,
)
from agentic_backend.limits_settings import LimitsSettings
from agentic_backend.protocol.events import Final
from agentic_backend.protocol.frames import Ask, HumanDecisions
from agentic_backend.protocol.messages import Channel, ExchangeStatus, MessageDraft, Role, Session
from agentic_backend.protocol.parts import TextPart
from agentic_backend.sessions.access import owned_session
from agentic_backend.sessions.ask_rate import AskRate
from agentic_backend.sessions.asked import Asked
from agentic_backend.sessions.exchange_launcher import ExchangeLauncher
from agentic_backend.sessions.exchange_views import ExchangeViews
from agentic_backend.sessions.instance import Instance
from agentic_backend.sessions.ledger import Ledger, QueryLedger, StoredLedger
from agentic_backend.sessions.recovery import Recovery
from agentic_backend.sessions.relay import Relay
from agentic_backend.sessions.resumption import Resumption
from agentic_backend.sessions.titles import provisional_title
from agentic_backend.sessions.user_limits import UserLimits
from agentic_backend.sessions.waiting_exchanges import WaitingExchanges
from agentic_backend.stores.base import AlreadyAsked, Store, Written
from agentic_backend.stores.records import ExchangeRecord
from agentic_backend.streaming.drafts import CompleteDraft


class SessionOrchestrator:
    def __init__(
        self,
        instance: Instance,
        store: Store,
        relay: Relay,
        *,
        agents: AgentManager,
        launcher: ExchangeLauncher,
        views: ExchangeViews,
        waiting: WaitingExchanges,
        resumption: Resumption,
        recovery: Recovery,
        user_limits: UserLimits,
        limits: LimitsSettings,
    ) -> None:
        self._instance = instance
        self._store = store
        self._relay = relay
        self._agents = agents
        self._launcher = launcher
        self._views = views
        self._waiting = waiting
        self._resumption = resumption
        self._recovery = recovery
        self._user_limits = user_limits
        self._limits = limits
        self._ask_rate = AskRate(limits.asks_per_minute, asyncio.get_running_loop().time)
        self._admissions: dict[tuple[str, str], asyncio.Task[ExchangeLog | Final]] = {}

    async def ask(self, user: User, ask: Ask, tokens: Tokens | None, request_id: str) -> ExchangeLog | Final:
        """Begin the exchange that `ask` asks for; its log. An ask that was sent before gives what it began.

        Raises a typed error where the ask is refused; nothing is then stored.
        """
        self._check_size(ask)
        # An ask without a name of its own gets one here, which nobody else can repeat.
        name = (user.id, ask.client_exchange_id or uuid4().hex)
        if (asked_before := self._relay.find_asked(*name)) is not None:
            return await self.view(user, asked_before.exchange_id)
        try:
            return await self._begin_once(name, user, ask, tokens, request_id)
        except (TooManyRuns, RateLimited):
            # What was asked before is no new ask.
            stored = await self._store.find_exchange(*name) if ask.client_exchange_id is not None else None
            if stored is None:
                raise
            return await self.view(user, stored.id)

    async def _begin_once(
        self, name: tuple[str, str], user: User, ask: Ask, tokens: Tokens | None, request_id: str
    ) -> ExchangeLog | Final:
        """Begin what `ask` asks for; whoever sends it again meanwhile gets the same."""
        admission = self._admissions.get(name)
        if admission is None:
            admission = self._relay.admit(user.id, lambda: self._begin(user, ask, tokens, request_id))
            self._admissions[name] = admission
            admission.add_done_callback(lambda _: self._admissions.pop(name, None))
        # Shielded: an exchange that has been admitted is started, though its asker may be gone by then.
        return await asyncio.shield(admission)

    async def human_resume(
        self, user: User, session_id: str | None, exchange_id: str, payload: HumanDecisions, tokens: Tokens | None
    ) -> ExchangeLog:
        """Decide on what an exchange waits for; its log. Raises as WaitingExchanges.decide does."""
        return await self._admit(user, lambda: self._waiting.decide(user, session_id, exchange_id, payload, tokens))

    async def resume(self, user: User, exchange_id: str, tokens: Tokens | None, request_id: str) -> ExchangeLog:
        """Go on with an interrupted exchange; the new one's log. Raises as Resumption.resume does."""

        async def resume() -> ExchangeLog:
            await self._user_limits.check_waiting(user.id)
            return await self._resumption.resume(user, exchange_id, tokens, request_id)

        return await self._admit(user, resume)

    async def view(self, user: User, exchange_id: str, session_id: str | None = None) -> ExchangeLog | Final:
        """The log of one exchange or, where its events are gone, its final. Raises ExchangeNotFound."""
        view = await self._views.view(user, exchange_id)
        if session_id not in (None, view.session_id):
            raise ExchangeNotFound
        return view

    async def running_in(self, user: User, session_id: str) -> tuple[Session, ExchangeLog | None]:
        """The user's session and the log of what runs or waits in it. Raises SessionNotFound."""
        running = self._relay.running_in(session_id)
        session = await owned_session(self._store, user.id, session_id)
        # What ended while the session was read may be missing in its next rank; it is followed to its end.
        running = self._relay.running_in(session_id) or running
        if running is not None:
            return session, running.log
        if session.active_exchange_id is None:
            return session, None
        view = await self._views.view(user, session.active_exchange_id)
        return session, view if isinstance(view, ExchangeLog) else None

    async def stop(self, user: User, session_id: str | None, exchange_id: str | None) -> ExchangeLog | Session | None:
        """Stop what runs or waits; its log. Where nothing does: the session, or None for a query.

        Raises SessionNotFound or ExchangeNotFound.
        """
        if session_id is not None:
            session = await owned_session(self._store, user.id, session_id)
            running = self._relay.running_in(session_id)
            exchange_id = exchange_id or (running.log.exchange_id if running else session.active_exchange_id)
            if exchange_id is None:
                return await owned_session(self._store, user.id, session_id)
        assert exchange_id is not None, "a frame that names nothing is refused"
        log = await self.view(user, exchange_id, session_id)
        session_id = log.session_id
        if isinstance(log, ExchangeLog) and log.final is None and await self._stop(log):
            return log
        # Read once it is known that nothing runs: before, its next rank might have been another.
        return await owned_session(self._store, user.id, session_id) if session_id is not None else None

    async def _stop(self, log: ExchangeLog) -> bool:
        """Whether there was anything to stop."""
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
                # It goes on since it was read.
                return await self._stop(log)
        else:
            self._relay.stop_elsewhere(record.id)
        return True

    async def _admit(self, user: User, work: Callable[[], Coroutine[Any, Any, ExchangeLog]]) -> ExchangeLog:
        # Shielded: what has been decided is acted upon, though whoever decided may be gone by then.
        return await asyncio.shield(self._relay.admit(user.id, work))

    def _check_size(self, ask: Ask) -> None:
        if len(ask.message.encode()) > self._limits.message_bytes:
            raise MessageTooLarge(f"message: larger than the limit of {self._limits.message_bytes} bytes")
        try:
            runtime_context = orjson.dumps(ask.runtime_context)
        except orjson.JSONEncodeError:
            raise BadFrame("runtime_context: nested too deeply") from None
        if len(runtime_context) > self._limits.runtime_context_bytes:
            raise BadFrame(f"runtime_context: larger than the limit of {self._limits.runtime_context_bytes} bytes")

    async def _begin(self, user: User, ask: Ask, tokens: Tokens | None, request_id: str) -> ExchangeLog | Final:
        self._ask_rate.count(user.id)
        exchange_id, started_at = uuid4().hex, self._store.now()
        draft = MessageDraft(role=Role.USER, channel=Channel.FINAL, parts=[TextPart(text=ask.message)])
        session: Session | None = None
        ledger: Ledger
        if ask.mode == "query":
            entry = self._agents.get(ask.agent_id, user)
            ledger = QueryLedger(self._store, exchange_id)
            [opening] = await ledger.write([CompleteDraft(draft, None)])
        else:
            await self._user_limits.check_waiting(user.id)
            session, entry = await self._session_for(user, ask)
            started_at = max(started_at, session.updated_at)
            record = ExchangeRecord(
                id=exchange_id,
                session_id=session.id,
                user_id=user.id,
                agent_id=entry.settings.id,
                client_exchange_id=ask.client_exchange_id,
                request_id=request_id,
                first_rank=session.next_rank,
                started_at=started_at,
                runtime_context=ask.runtime_context,
                owner=self._instance.id,
            )
            new_session = session if ask.session_id is None else None
            try:
                written = await self._store_beginning(record, draft, new_session)
            except AlreadyAsked as already:
                unheard = await self._begun_unheard(already.exchange_id)
                if unheard is None:
                    return await self.view(user, already.exchange_id)
                record, written = unheard
                exchange_id, entry = record.id, self._agents.get(record.agent_id, user)
            session, [opening] = written.session, written.messages
            ledger = StoredLedger(self._store, session, exchange_id, self._instance)
        asked = Asked(
            user_id=user.id,
            agent_id=entry.settings.id,
            client_exchange_id=ask.client_exchange_id,
            request_id=request_id,
            started_at=started_at,
            session=session,
            opening=opening,
        )
        return self._launcher.launch(asked, entry, ledger, tokens, runtime_context=ask.runtime_context)

    async def _store_beginning(
        self, exchange: ExchangeRecord, opening: MessageDraft, new_session: Session | None
    ) -> Written:
        """Begin the exchange in the store. Raises what `begin_exchange` raises."""
        try:
            return await self._store.begin_exchange(exchange, opening, new_session)
        except SessionBusy:
            session = await owned_session(self._store, exchange.user_id, exchange.session_id)
            if not await self._end_if_left(session.active_exchange_id):
                raise
            return await self._store.begin_exchange(exchange, opening, new_session)

    async def _end_if_left(self, exchange_id: str | None) -> bool:
        """End an exchange that the store began though its answer got lost, so that it was refused and never ran."""
        record = await self._left(exchange_id or "")
        return record is not None and await self._recovery.recover(record)

    async def _begun_unheard(self, exchange_id: str) -> tuple[ExchangeRecord, Written] | None:
        """What the store began for an ask that was refused, for its answer got lost; it can run yet.

        One that was asked for under this name alone: whoever asks again meanwhile waits for the same admission.
        """
        record = await self._left(exchange_id)
        if record is None:
            return None
        session = await self._store.get_session(record.session_id)
        messages = await self._store.exchange_messages(record.id)
        is_untouched = len(messages) == 1 and not self._relay.holds(record.id)
        return (record, Written(session, messages)) if session is not None and is_untouched else None

    async def _left(self, exchange_id: str) -> ExchangeRecord | None:
        """The exchange, where it should run here and doesn't."""
        record = await self._store.get_exchange(exchange_id)
        if record is None or record.status is not ExchangeStatus.RUNNING or record.owner != self._instance.id:
            return None
        return None if self._relay.holds(record.id) else record

    async def _session_for(self, user: User, ask: Ask) -> tuple[Session, CatalogAgent]:
        if ask.session_id is not None:
            session = await owned_session(self._store, user.id, ask.session_id)
            return session, self._agents.get(ask.agent_id or session.agent_id, user)
        entry, now = self._agents.get(ask.agent_id, user), self._store.now()
        session = Session(
            id=uuid4().hex,
            user_id=user.id,
            agent_id=entry.settings.id,
            title=provisional_title(ask.message),
            created_at=now,
            updated_at=now,
            chat_profile=ask.chat_profile,
        )
        return session, entry
