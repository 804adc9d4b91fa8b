"""Relay: owns the task of every exchange that runs here, admits new ones, and ends them when the process shuts down.

An exchange belongs to its session, not to a connection: connections come and go, and read its log. The broadcast fills
the logs of exchanges on other instances. The relay also holds the logs (`LogRegistry`), the subscriptions of feeds
(`SessionSubscriptions`, `ListSubscriptions`) and the shutdown of connections (`Drain`).
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from agentic_backend.errors import AgenticError, RateLimited, ShuttingDown, TooManyRuns
from agentic_backend.protocol.messages import ExchangeStatus, Session, SessionState
from agentic_backend.relay.backlog import Backlog
from agentic_backend.relay.broadcast import Broadcast
from agentic_backend.relay.control_messages import AgentsChanged, Changed, ListChanged
from agentic_backend.relay.drain import Drain
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.relay.log.log_registry import LogRegistry
from agentic_backend.relay.subscriptions import ListSubscriptions, SessionSubscriptions
from agentic_backend.tracing.spans import context_of_call

log = logging.getLogger(__name__)

Result = TypeVar("Result")

# How long each step of the shutdown waits without progress after the grace period: for the next node, the last
# messages, cancelled tasks, and the close of connections. Together they fit into the two seconds that a server has.
_DRAIN_S, _LAST_WORDS_S, _CANCEL_S, _LEAVE_S = 0.3, 0.7, 0.1, 0.3
_NAMES = 10_000
# After this time an exchange without a token waits for its model or a tool, not for this process, in seconds.
_STARTS_WITHIN_S = 2.0
_LEAVING_S = 60


class RunningExchange(Protocol):
    """What the relay knows of an exchange that runs in this process."""

    @property
    def log(self) -> ExchangeLog: ...

    @property
    def client_exchange_id(self) -> str | None:
        """The client's id for the exchange, unique per user."""

    @property
    def settled(self) -> asyncio.Event:
        """Set when it has ended or paused and stores nothing more; a tool that ignores this may still run."""

    @property
    def began_at(self) -> float:
        """When this run began, in seconds of the monotonic clock."""

    @property
    def has_spoken(self) -> bool:
        """Whether its first token has come, in this run or before a pause."""

    @property
    def model_calls_begun_at(self) -> list[float]:
        """The same of its model calls that have not ended."""

    async def run(self) -> None:
        """Run until the exchange ends or waits for a person. Never raises: an error becomes the exchange's end."""

    def stop(self) -> None:
        """End it as stopped, soon."""

    def drain(self) -> None:
        """End it as interrupted after its current step, from where it can be resumed: the process shuts down."""

    def interrupt(self) -> None:
        """End it as interrupted, soon."""


class Relay:
    """Holds every task that it has started until the task ends; `aclose` ends them all."""

    def __init__(
        self,
        *,
        broadcast: Broadcast,
        keep_ended_bytes: int,
        max_running: int,
        running_per_user: int | None,
        grace_s: float,
        drain: Drain | None = None,
        backlog: Backlog | None = None,
    ) -> None:
        self._broadcast = broadcast
        self._tasks: set[asyncio.Task[Any]] = set()
        """The tasks that have not ended: exchanges, admissions and background work."""
        self._admissions: dict[asyncio.Task[Any], str] = {}
        """The tasks that are starting an exchange, with the user's id."""
        self._running: dict[str, RunningExchange] = {}
        """The exchanges whose tasks have not ended, by exchange id; a settled one may still have a running tool."""
        self._in_session: dict[str, RunningExchange] = {}
        """The exchange that was started last in each session, by session id."""
        self._claims: Counter[str] = Counter()
        """How often each exchange is being claimed at the moment, by exchange id."""
        self._logs = LogRegistry(keep_ended_bytes=keep_ended_bytes, names=_NAMES + max_running)
        self._leaving: frozenset[str] = frozenset()
        """The users whose data are being deleted."""
        self._max_running = max_running
        self._running_per_user = running_per_user
        self._backlog = backlog or Backlog()
        self._grace_s = grace_s
        self.session_subscriptions = SessionSubscriptions()
        """The feeds that are notified of a session."""
        self.list_subscriptions = ListSubscriptions()
        """The feeds that follow all sessions of a user."""
        self.on_completed: Callable[[str], None] | None = None
        """Called with the id of a session that was completed here or elsewhere."""
        self.on_list_changed: Callable[[str, str, ExchangeStatus | None], None] | None = None
        """Called as `tell_lists` is, here or elsewhere."""
        self.on_agents_changed: Callable[[], None] | None = None
        """Called if another instance has changed agents of the database, or may have."""
        self.drain = drain or Drain()
        """Each open connection registers here, and gets a notice to close when the server stops."""
        broadcast.listen(self)

    @property
    def running_count(self) -> int:
        """The number of exchanges in this process."""
        return len(self._running)

    @property
    def began_at(self) -> list[float]:
        """When the exchanges in this process began to run, in seconds of the monotonic clock. From any thread."""
        return [exchange.began_at for exchange in list(self._running.values())]

    @property
    def model_calls_begun_at(self) -> list[float]:
        """The same of their model calls that have not ended."""
        return [at for exchange in list(self._running.values()) for at in exchange.model_calls_begun_at]

    @property
    def awaits_first_token(self) -> bool:
        """Whether an exchange is being admitted, or has begun to run and has not said anything yet."""
        begun_after = time.monotonic() - _STARTS_WITHIN_S
        return bool(self._admissions) or any(
            exchange.began_at > begun_after and not exchange.has_spoken and not exchange.settled.is_set()
            for exchange in self._running.values()
        )

    @property
    def running_logs(self) -> list[ExchangeLog]:
        """The logs of the exchanges that run here."""
        return [exchange.log for exchange in self._running.values()]

    @property
    def foreign_logs(self) -> list[ExchangeLog]:
        """The logs without an end of exchanges that don't run here.

        They have readers, or the exchange ran here and another instance has taken it over.
        """
        return [log for log in self._logs.unended() if not self.holds(log.exchange_id)]

    @property
    def draining(self) -> bool:
        return self.drain.has_begun

    def admit(
        self, user_id: str, begin: Callable[[], Coroutine[Any, Any, Result]], *, goes_on: bool = False
    ) -> asyncio.Task[Result]:
        """Run `begin`, which starts an exchange of the user or refuses it; until it ends it counts as an exchange.

        Raises ShuttingDown or TooManyRuns if no exchange may start now, Overloaded if what was admitted waits for too
        long, unless it is one that `goes_on`, and RateLimited while the user's data are being deleted.
        """
        if self.draining:
            raise ShuttingDown(retry_after_s=1)
        if user_id in self._leaving:
            raise RateLimited("Your data are being deleted; ask again in a minute.", retry_after_s=_LEAVING_S)
        if len(self._running) + len(self._admissions) >= self._max_running:
            raise TooManyRuns(retry_after_s=1)
        if self._running_per_user is not None and self._running_of(user_id) >= self._running_per_user:
            raise TooManyRuns(f"As many of your exchanges run as may: {self._running_per_user}.", retry_after_s=1)
        if not goes_on:
            self._backlog.check()
        admission = self.spawn(begin())
        self._admissions[admission] = user_id
        admission.add_done_callback(self._admissions.pop)
        return admission

    def new_log(self, session_id: str | None, exchange_id: str, user_id: str) -> ExchangeLog:
        """Create a log, which `find` returns from now on."""
        return self._logs.new(session_id, exchange_id, user_id)

    def start(self, exchange: RunningExchange) -> None:
        """Run `exchange` in a task of the relay, and show it to the subscribers of its session."""
        started = exchange.log
        self._running[started.exchange_id] = exchange
        if exchange.client_exchange_id is not None:
            self._logs.name(started, exchange.client_exchange_id)
        if started.session_id is not None:
            self._in_session[started.session_id] = exchange
            self.publish(started)
            self._broadcast.started(started)
        self.spawn(self._run(exchange))
        self.session_subscriptions.exchange_started(started)

    def spawn(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Run `work` in a background task that the relay holds, and awaits in `aclose`.

        The task gets nothing of the context but the ids of its call, so that LangChain never takes the tokens of a
        title for tokens of an answer.
        """
        task = asyncio.create_task(work, context=context_of_call())
        self._tasks.add(task)
        task.add_done_callback(self._let_go)
        return task

    def find(self, exchange_id: str) -> ExchangeLog | None:
        """The log of an exchange, running or not, if it is kept here or has readers."""
        log = self._logs.get(exchange_id)
        if log is None or log.final is None or log.is_followed:
            return log
        return log if exchange_id in self._running or self._logs.is_kept(exchange_id) else None

    def find_asked(self, user_id: str, client_exchange_id: str) -> ExchangeLog | None:
        """The log of the user's exchange with this client's id, if it is here."""
        return self.find(self._logs.id_of(user_id, client_exchange_id))

    def running(self, exchange_id: str) -> RunningExchange | None:
        """The exchange, if it runs here; an exchange that waits for a person doesn't run."""
        return _if_at_work(self._running.get(exchange_id))

    def holds(self, exchange_id: str) -> bool:
        """Whether the exchange runs here, or has ended here and is not stored yet."""
        exchange = self._running.get(exchange_id)
        return exchange is not None and not exchange.settled.is_set()

    @contextmanager
    def claiming(self, exchange_id: str) -> Iterator[None]:
        """Wraps a claim of the exchange in the store, and what follows until it runs or has ended.

        Meanwhile the store may already say that this instance runs it; `is_left` is False all the same.
        """
        self._claims[exchange_id] += 1
        try:
            yield
        finally:
            self._claims[exchange_id] -= 1
            if not self._claims[exchange_id]:
                del self._claims[exchange_id]

    def is_left(self, exchange_id: str) -> bool:
        """Whether an exchange that the store gives to this instance neither runs here nor is about to."""
        return not self.holds(exchange_id) and exchange_id not in self._claims

    def running_in(self, session_id: str) -> RunningExchange | None:
        """The session's exchange, if one runs here."""
        return _if_at_work(self._in_session.get(session_id))

    async def admitted(self) -> None:
        """Wait until every current admission has started its exchange or was refused."""
        if self._admissions:
            await asyncio.wait(set(self._admissions))

    def mirror(self, session_id: str, exchange_id: str, user_id: str) -> ExchangeLog:
        """The log of an exchange on another instance; without a broadcast it is not filled."""
        log = self.find(exchange_id)
        if log is None:
            log = self._logs.new(session_id, exchange_id, user_id)
            log.is_filling = log.is_mirrored = self._broadcast.mirror(log)
        else:
            log.is_mirrored = self._broadcast.mirror(log)
        return log

    def publish(self, log: ExchangeLog) -> None:
        """Publish the events that are added to `log` here to the other instances."""
        log.is_mirrored = False
        self._broadcast.publish(log)

    def stop_elsewhere(self, exchange_id: str) -> None:
        """Ask the exchange's owner to stop it."""
        self._broadcast.stop(exchange_id)

    def evict_session(self, session_id: str, exchange_ids: Collection[str]) -> None:
        """Remove the logs of a session that is being deleted, here and in the broadcast; its exchanges have ended."""
        self._logs.evict_session(session_id)
        self._broadcast.forget(exchange_ids)

    def forget_users(self, user_ids: Collection[str]) -> None:
        """Stop what runs here of these users, remove their logs, and admit nothing of theirs until the next call.

        A log whose reader waits for its end is left to a later call.
        """
        self._leaving = frozenset(user_ids)
        for exchange in list(self._running.values()):
            if exchange.log.user_id in self._leaving:
                exchange.stop()
        if self._leaving:
            self._logs.evict_users(self._leaving)

    def session_changed(self, session: Session) -> None:
        """Tell those who watch the session, or follow all of its user's, on every instance."""
        self.changed_elsewhere(session)
        self._broadcast.tell(Changed(session=session))
        self.tell_lists(session.user_id, session.id)

    def tell_lists(self, user_id: str, session_id: str, ended: ExchangeStatus | None = None) -> None:
        """Tell those who follow all sessions of the user, on every instance, that this one is to be read again.

        It has begun, changed or gone. `ended` is how an exchange of it has just ended.
        """
        self.list_changed_elsewhere(user_id, session_id, ended)
        self._broadcast.tell(ListChanged(user_id=user_id, session_id=session_id, ended=ended))

    def tell_agents_changed(self) -> None:
        """Tell the other instances that agents of the database have changed."""
        self._broadcast.tell(AgentsChanged())

    def stop_here(self, exchange_id: str) -> None:
        running = self.running(exchange_id)
        if running is not None:
            running.stop()

    def started_elsewhere(self, session_id: str, exchange_id: str, user_id: str) -> None:
        if self.find(exchange_id) is not None or self.session_subscriptions.want_exchanges(session_id):
            self.session_subscriptions.exchange_started(self.mirror(session_id, exchange_id, user_id))

    def changed_elsewhere(self, session: Session) -> None:
        self.session_subscriptions.session_changed(session)
        if session.state is SessionState.COMPLETED and self.on_completed is not None:
            self.on_completed(session.id)

    def list_changed_elsewhere(self, user_id: str, session_id: str, ended: ExchangeStatus | None) -> None:
        if self.on_list_changed is not None:
            self.on_list_changed(user_id, session_id, ended)

    def agents_changed_elsewhere(self) -> None:
        if self.on_agents_changed is not None:
            self.on_agents_changed()

    def may_have_missed(self) -> None:
        self.agents_changed_elsewhere()
        self.list_subscriptions.missed()

    async def aclose(self) -> None:
        """Drain, let exchanges finish within the grace period, then interrupt them, and await every task.

        If the drain is cut short, the grace period is over.
        """
        # Start no more exchanges, and close idle clients meanwhile: they can reconnect elsewhere.
        self.drain.begin(self._grace_s / 2)
        # Exchanges that end within the grace period end normally.
        await self._wait_settled()
        # The others stop before their next step: there they have a checkpoint, which another instance can resume.
        for exchange in list(self._running.values()):
            exchange.drain()
        await self.drain.wait(self._unsettled, _DRAIN_S)
        # Exchanges that are still within a step end now: their text and their final are stored and shown.
        for exchange in list(self._running.values()):
            exchange.interrupt()
        await self.drain.wait(self._unsettled, _LAST_WORDS_S, self._shown)
        # The remaining tasks name a session, or run a tool that ignores the end of its exchange: no client waits.
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            # With a timeout: a tool may ignore its cancellation too, and the process ends without it.
            await asyncio.wait(self._tasks, timeout=_CANCEL_S)
        # Connections close once they have shown the last events; then the notices of the others become due at once.
        if not self.drain.cut_short.is_set():
            await self.drain.wait(lambda: self.drain.open_count, _LEAVE_S)
        self.drain.hurry()
        # The server process closes the connections that are still open after that.
        await self.drain.wait(lambda: self.drain.open_count, _LEAVE_S)

    def _shown(self) -> int:
        """Grows with each event of what runs here."""
        return sum(log.last_seq for log in self.running_logs)

    async def _wait_settled(self) -> None:
        """Wait until all admitted exchanges are settled, for at most the grace period."""
        settled = asyncio.create_task(self._settled())
        cut_short = asyncio.create_task(self.drain.cut_short.wait())
        try:
            await asyncio.wait({settled, cut_short}, timeout=self._grace_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            settled.cancel()
            cut_short.cancel()
            await asyncio.wait({settled, cut_short})

    async def _settled(self) -> None:
        while self._admissions:
            await asyncio.wait(self._admissions)
        for exchange in list(self._running.values()):
            await exchange.settled.wait()

    def _unsettled(self) -> int:
        running = sum(not exchange.settled.is_set() for exchange in self._running.values())
        return running + len(self._admissions)

    def _running_of(self, user_id: str) -> int:
        running = sum(exchange.log.user_id == user_id for exchange in self._running.values())
        return running + sum(owner_id == user_id for owner_id in self._admissions.values())

    def _let_go(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        # Checked here, because the caller that awaited it may have been cancelled.
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, AgenticError):
            log.error("background task failed", exc_info=error)

    async def _run(self, exchange: RunningExchange) -> None:
        exchange_id, session_id = exchange.log.exchange_id, exchange.log.session_id
        try:
            await exchange.run()
        finally:
            self._logs.keep(exchange.log)
            # A newer run of the exchange, or another exchange of the session, may have replaced it: those stay.
            if self._running.get(exchange_id) is exchange:
                del self._running[exchange_id]
            if session_id is not None and self._in_session.get(session_id) is exchange:
                del self._in_session[session_id]


def _if_at_work(exchange: RunningExchange | None) -> RunningExchange | None:
    """The exchange, unless it has ended or paused."""
    if exchange is None or exchange.settled.is_set() or exchange.log.final is not None:
        return None
    return exchange
