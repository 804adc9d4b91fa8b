"""SessionOrchestrator: begins, continues, finds and stops exchanges for clients.

What happens within an exchange is up to the exchange. Every method that takes a user checks that the named session or
exchange is theirs.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import uuid4

from agentic_backend.auth.user import Tokens, User
from agentic_backend.errors import (
    ApprovalNotFound,
    AssignmentClosed,
    AssignmentNotOpen,
    BudgetExceeded,
    ExchangeNotFound,
    Overloaded,
    RateLimited,
    TooManyRuns,
)
from agentic_backend.exchange.launcher import ExchangeLauncher
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.policy.usage.usage_ledger import Payer
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.protocol.messages import ExchangeStatus, Session
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.sessions.access import owned_session
from agentic_backend.sessions.asking.ask_rate import AskRate
from agentic_backend.sessions.asking.exchange_beginnings import ExchangeBeginnings
from agentic_backend.sessions.asking.turn import Turn
from agentic_backend.sessions.asking.user_limits import UserLimits
from agentic_backend.sessions.reading.exchange_views import ExchangeViews
from agentic_backend.sessions.waiting.resumption import Resumption
from agentic_backend.sessions.waiting.waiting_exchanges import WaitingExchanges
from agentic_backend.stores.base import AlreadyAsked


class SessionOrchestrator:
    def __init__(
        self,
        services: ExchangeServices,
        beginnings: ExchangeBeginnings,
        *,
        launcher: ExchangeLauncher,
        views: ExchangeViews,
        waiting: WaitingExchanges,
        resumption: Resumption,
        user_limits: UserLimits,
    ) -> None:
        self._store = services.store
        self._relay = services.relay
        self._limits = services.limits
        self._profiles = services.profiles
        self._beginnings = beginnings
        self._launcher = launcher
        self._views = views
        self._waiting = waiting
        self._resumption = resumption
        self._user_limits = user_limits
        self._budgets = services.ledger.budgets
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
        except (TooManyRuns, Overloaded, RateLimited, BudgetExceeded, AssignmentNotOpen, AssignmentClosed) as refusal:
            # The limits don't apply to a repeated ask.
            stored = await self._store.find_exchange(*name) if turn.client_exchange_id is not None else None
            if stored is None:
                raise
            if isinstance(refusal, AssignmentClosed):
                # The store's answer may have got lost: nobody would run it any more, and its session would stay busy.
                await self._beginnings.end_left(stored.id, refusal)
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

        # Its answer was promised when it was admitted.
        return await self._admit(user, decide, goes_on=True)

    async def resume(self, user: User, exchange_id: str, tokens: Tokens | None, request_id: str) -> ExchangeLog:
        """Resume an interrupted exchange, and return the new log. Raises as Resumption.resume does, and TooManyRuns."""

        async def resume() -> ExchangeLog:
            return await self._resumption.resume(user, exchange_id, tokens, request_id)

        return await self.admit_again(user, exchange_id, resume)

    async def admit_again(
        self, user: User, exchange_id: str, begin: Callable[[], Coroutine[Any, Any, ExchangeLog]]
    ) -> ExchangeLog:
        """Begin an exchange that goes on from the user's exchange, within their limits. Raises TooManyRuns."""

        async def begin_within_limits() -> ExchangeLog:
            await self._user_limits.check_waiting(user.id)
            await self._check_budget_of(user, exchange_id)
            return await begin()

        return await self._admit(user, begin_within_limits)

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

    async def _check_budget_of(self, user: User, exchange_id: str) -> None:
        """Raise BudgetExceeded if the user, or the group that pays for their exchange, has spent its budget."""
        record = await self._store.get_exchange(exchange_id) if self._budgets else None
        if record is not None and record.user_id == user.id:
            await self._budgets.check(user.id, self._budgets.paying_group(Payer.of(record).groups))

    async def _admit(
        self, user: User, work: Callable[[], Coroutine[Any, Any, ExchangeLog]], *, goes_on: bool = False
    ) -> ExchangeLog:
        # Shielded: the work completes even if its client disconnects.
        return await asyncio.shield(self._relay.admit(user.id, work, goes_on=goes_on))

    async def _begin(self, user: User, turn: Turn, tokens: Tokens | None, request_id: str) -> ExchangeLog:
        self._ask_rate.count(user.id)
        if turn.mode == "query":
            return self._launcher.launch(await self._beginnings.query(user, turn, request_id), tokens)
        exchange_id = uuid4().hex
        try:
            with self._relay.claiming(exchange_id):
                start = await self._beginnings.in_session(user, turn, exchange_id, request_id)
                return self._launcher.launch(start, tokens)
        except AlreadyAsked as already:
            left = await self._beginnings.left_behind(user, already.exchange_id)
            if left is None:
                return await self.view(user, already.exchange_id)
            return self._launcher.launch(left, tokens)
