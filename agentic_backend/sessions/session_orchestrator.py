"""SessionOrchestrator: from an ask to a running exchange, and what a client may do with it from there.

It admits, finds, stops and follows; what happens within an exchange is the exchange's own. Every method that takes a
user checks that what is named is theirs.
"""

import asyncio
import logging
from uuid import uuid4

import orjson

from agentic_backend.agents.agent_factory import AgentFactory
from agentic_backend.agents.agent_manager import AgentManager, CatalogAgent
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.auth.user import Tokens, User
from agentic_backend.errors import BadFrame, ExchangeNotFound, MessageTooLarge, SessionBusy
from agentic_backend.kpi import Kpi
from agentic_backend.protocol.events import Final
from agentic_backend.protocol.frames import Ask
from agentic_backend.protocol.messages import (
    Channel,
    MessageDraft,
    Role,
    Session,
    utc_now,
)
from agentic_backend.protocol.parts import TextPart
from agentic_backend.sessions.access import owned_exchange, owned_session
from agentic_backend.sessions.exchange import Exchange
from agentic_backend.sessions.exchange_kpis import Asked
from agentic_backend.sessions.exchange_log import ExchangeLog
from agentic_backend.sessions.graph_run import GraphRun
from agentic_backend.sessions.ledger import Ledger, QueryLedger, StoredLedger
from agentic_backend.sessions.recall import Recall
from agentic_backend.sessions.recovery import recover_exchange
from agentic_backend.sessions.relay import Relay, RunningExchange
from agentic_backend.sessions.titles import UNNAMED, Titles, provisional_title
from agentic_backend.settings import LimitsSettings
from agentic_backend.stores.base import AlreadyAsked, ExchangeRecord, FencedOut, Store, Written

log = logging.getLogger(__name__)


class SessionOrchestrator:
    def __init__(
        self,
        *,
        store: Store,
        agents: AgentManager,
        factory: AgentFactory,
        relay: Relay,
        titles: Titles,
        kpi: Kpi,
        limits: LimitsSettings,
    ) -> None:
        self._store = store
        self._agents = agents
        self._factory = factory
        self._relay = relay
        self._titles = titles
        self._kpi = kpi
        self._limits = limits
        self._recall = Recall(store)
        self._admissions: dict[tuple[str, str], asyncio.Task[ExchangeLog | Final]] = {}

    async def ask(self, user: User, ask: Ask, tokens: Tokens | None, request_id: str) -> ExchangeLog | Final:
        """Begin the exchange that `ask` asks for; its log. An ask that was sent before gives what it began.

        Raises a typed error where the ask is refused; nothing is then stored.
        """
        self._check_size(ask)
        # An ask without a name of its own gets one here, which nobody else can repeat.
        name = (user.id, ask.client_exchange_id or uuid4().hex)
        if (asked_before := self._relay.find_asked(*name)) is not None:
            return asked_before.log
        admission = self._admissions.get(name)
        if admission is None:
            admission = self._relay.admit(lambda: self._begin(user, ask, tokens, request_id))
            self._admissions[name] = admission
            admission.add_done_callback(lambda _: self._admissions.pop(name, None))
        # Shielded: an exchange that has been admitted is started, though its asker may be gone by then.
        return await asyncio.shield(admission)

    async def view(self, user: User, exchange_id: str, session_id: str | None = None) -> ExchangeLog | Final:
        """The log of one exchange or, where its events are gone, its final. Raises ExchangeNotFound."""
        exchange = await self._named(user, exchange_id, session_id)
        if not isinstance(exchange, ExchangeRecord):
            return exchange.log
        if not exchange.status.ended:
            raise ExchangeNotFound
        return await self._final_of(exchange)

    async def running_in(self, user: User, session_id: str) -> tuple[Session, ExchangeLog | None]:
        """The user's session and the log of what runs in it. Raises SessionNotFound."""
        running = self._relay.running_in(session_id)
        session = await owned_session(self._store, user.id, session_id)
        # What ended while the session was read may be missing in its next rank; it is followed to its end.
        running = self._relay.running_in(session_id) or running
        return session, running.log if running else None

    async def stop(self, user: User, session_id: str | None, exchange_id: str | None) -> ExchangeLog | Session | None:
        """Stop what runs; its log. Where nothing runs: the session, or None for a query.

        Raises SessionNotFound or ExchangeNotFound.
        """
        exchange: RunningExchange | ExchangeRecord | None
        if session_id is not None:
            await owned_session(self._store, user.id, session_id)
        if exchange_id is None:
            exchange = self._relay.running_in(session_id or "")
        else:
            exchange = await self._named(user, exchange_id, session_id)
        if isinstance(exchange, ExchangeRecord):
            session_id = exchange.session_id
        elif exchange is not None:
            if exchange.log.final is None:
                exchange.stop()
                return exchange.log
            session_id = exchange.log.session_id
        # Read once it is known that nothing runs: before, its next rank might have been another.
        return await owned_session(self._store, user.id, session_id) if session_id is not None else None

    async def _named(self, user: User, exchange_id: str, session_id: str | None) -> RunningExchange | ExchangeRecord:
        """The user's exchange while its events are here, else as it is stored. Raises ExchangeNotFound."""
        found: RunningExchange | ExchangeRecord
        running = self._relay.find(exchange_id)
        if running is None:
            found = await owned_exchange(self._store, user.id, exchange_id)
            found_in: str | None = found.session_id
        elif running.owner_id == user.id:
            found, found_in = running, running.log.session_id
        else:
            raise ExchangeNotFound
        if session_id not in (None, found_in):
            raise ExchangeNotFound
        return found

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
        exchange_id, started_at = uuid4().hex, utc_now()
        draft = MessageDraft(role=Role.USER, channel=Channel.FINAL, parts=[TextPart(text=ask.message)])
        session: Session | None = None
        ledger: Ledger
        if ask.mode == "query":
            entry = self._agents.get(ask.agent_id, user)
            ledger = QueryLedger(self._store, exchange_id)
            [opening] = await ledger.write([draft])
        else:
            session, entry = await self._session_for(user, ask)
            record = ExchangeRecord(
                id=exchange_id,
                session_id=session.id,
                user_id=user.id,
                agent_id=entry.settings.id,
                client_exchange_id=ask.client_exchange_id,
                request_id=request_id,
                first_rank=session.next_rank,
                started_at=started_at,
            )
            new_session = session if ask.session_id is None else None
            try:
                written = await self._admit(record, draft, new_session)
            except AlreadyAsked as already:
                return await self.view(user, already.exchange_id)
            session, [opening] = written.session, written.messages
            ledger = StoredLedger(self._store, session, exchange_id)
        asked = Asked(
            user_id=user.id,
            agent_id=entry.settings.id,
            client_exchange_id=ask.client_exchange_id,
            request_id=request_id,
            started_at=started_at,
            session=session,
            opening=opening,
        )
        return self._start(asked, ask, entry, ledger, tokens)

    async def _admit(self, exchange: ExchangeRecord, opening: MessageDraft, new_session: Session | None) -> Written:
        """Begin the exchange in the store. Raises what `begin_exchange` raises."""
        try:
            return await self._store.begin_exchange(exchange, opening, new_session)
        except AlreadyAsked as already:
            await self._end_if_left(already.exchange_id)
            raise
        except SessionBusy:
            session = await owned_session(self._store, exchange.user_id, exchange.session_id)
            if not await self._end_if_left(session.active_exchange_id):
                raise
            return await self._store.begin_exchange(exchange, opening, new_session)

    async def _end_if_left(self, exchange_id: str | None) -> bool:
        """End an exchange that the store began though its answer got lost, so that it was refused and never ran."""
        record = await self._store.get_exchange(exchange_id or "")
        running = self._relay.find(exchange_id or "")
        if record is None or record.status.ended or (running is not None and not running.settled.is_set()):
            return False
        try:
            await recover_exchange(self._store, record)
        except FencedOut:
            return False
        return True

    async def _session_for(self, user: User, ask: Ask) -> tuple[Session, CatalogAgent]:
        if ask.session_id is not None:
            session = await owned_session(self._store, user.id, ask.session_id)
            return session, self._agents.get(ask.agent_id or session.agent_id, user)
        entry, now = self._agents.get(ask.agent_id, user), utc_now()
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

    def _start(self, asked: Asked, ask: Ask, entry: CatalogAgent, ledger: Ledger, tokens: Tokens | None) -> ExchangeLog:
        session, opening = asked.session, asked.opening
        context = RuntimeContext(
            user_id=asked.user_id,
            session_id=opening.session_id,
            exchange_id=opening.exchange_id,
            agent_id=asked.agent_id,
            client=ask.runtime_context,
            access_token=tokens.access_token if tokens else None,
            refresh_token=tokens.refresh_token if tokens else None,
        )
        window = entry.settings.chat.history_exchanges

        def name_session() -> None:
            unnamed = (UNNAMED, provisional_title(ask.message))
            if session is not None and opening.rank == 0 and session.title in unnamed:
                self._titles.name_soon(session, ask.message)

        graph_run = GraphRun(
            entry,
            context,
            factory=self._factory,
            recall=self._recall,
            window=self._limits.history_exchanges if window is None else window,
            on_first_token=name_session,
        )
        exchange_log = self._relay.new_log(opening.session_id, opening.exchange_id)
        self._relay.start(
            Exchange(asked, graph_run, ledger, exchange_log, recall=self._recall, kpi=self._kpi, limits=self._limits)
        )
        log.info(
            "exchange started",
            extra={
                "request_id": asked.request_id,
                "exchange_id": opening.exchange_id,
                "session_id": opening.session_id,
                "agent_id": asked.agent_id,
            },
        )
        return exchange_log

    async def _final_of(self, record: ExchangeRecord) -> Final:
        """The final of an ended exchange, made anew from the store."""
        return Final(
            session_id=record.session_id,
            exchange_id=record.id,
            seq=record.last_seq,
            status=record.status,
            messages=await self._store.exchange_messages(record.id),
            session=await self._store.get_session(record.session_id),
            usage=record.usage,
            error=record.error,
        )
