"""Relay: owns the task of every exchange that runs here, and the logs that clients follow; sockets come and go.

An exchange belongs to its session, not to a socket. A log is kept while its exchange runs here or somebody follows it,
and for a while after; that of an exchange on another instance is filled by the broadcast. The relay tells whoever
watches a session of its new exchanges and its changes, wherever these happen.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from cachetools import LRUCache, TTLCache

from agentic_backend.broadcast.base import Broadcast
from agentic_backend.broadcast.exchange_log import ExchangeLog
from agentic_backend.errors import AgenticError, ShuttingDown, TooManyRuns
from agentic_backend.protocol.messages import Session
from agentic_backend.sessions.departure import Departure

log = logging.getLogger(__name__)

Result = TypeVar("Result")

# How long nothing may move, beyond the grace period, on the way to the next node, to the last messages, to the close of
# every connection. Together these leave time within the two seconds that a server may go on.
_DRAIN_S, _LAST_WORDS_S, _CANCEL_S, _LEAVE_S = 0.3, 0.7, 0.1, 0.3
_NAMES = 10_000


class RunningExchange(Protocol):
    @property
    def log(self) -> ExchangeLog: ...

    @property
    def client_exchange_id(self) -> str | None:
        """The name that the client gave it, unique for its user."""
        ...

    @property
    def settled(self) -> asyncio.Event:
        """Set when it has ended or paused and no more is stored of it; a tool that ignores this may still run."""
        ...

    async def run(self) -> None:
        """Run to the end, or until it waits for a person. Never raises: what goes wrong becomes its own ending."""
        ...

    def stop(self) -> None:
        """End it as stopped, soon."""
        ...

    def drain(self) -> None:
        """End it as interrupted at the next place where it can go on later: the process is going."""
        ...

    def interrupt(self) -> None:
        """End it as interrupted, soon."""
        ...


class Follower(Protocol):
    def exchange_started(self, log: ExchangeLog) -> None:
        """An exchange runs in the session, from now on or again; what is followed of it already is followed on."""
        ...

    def session_changed(self, session: Session) -> None: ...


class Relay:
    """`aclose` ends what runs; until then every task that was started here is held here."""

    def __init__(
        self,
        *,
        broadcast: Broadcast,
        keep_ended_bytes: int,
        keep_ended_s: float,
        compact_after: int,
        max_running: int,
        running_per_user: int | None,
        grace_s: float,
        departure: Departure | None = None,
    ) -> None:
        self._broadcast = broadcast
        self._tasks: set[asyncio.Task[Any]] = set()
        self._admissions: dict[asyncio.Task[Any], str] = {}
        """What is about to run, and whose it is."""
        self._running: dict[str, RunningExchange] = {}
        self._logs: WeakValueDictionary[str, ExchangeLog] = WeakValueDictionary()
        """Every log that is here, each by its exchange's id."""
        self._kept: TTLCache[str, ExchangeLog] = TTLCache(keep_ended_bytes, keep_ended_s, getsizeof=_size)
        self._by_session: dict[str, str] = {}
        self._by_name: LRUCache[tuple[str, str], str] = LRUCache(_NAMES + max_running)
        self._followers: dict[str, dict[Follower, bool]] = {}
        self._compact_after = compact_after
        self._max_running = max_running
        self._running_per_user = running_per_user
        self._grace_s = grace_s
        self.departure = departure or Departure()
        """What is open to a client tells itself to it."""
        broadcast.listen(self)

    @property
    def running_count(self) -> int:
        """How many exchanges share this process."""
        return len(self._running)

    @property
    def running_logs(self) -> list[ExchangeLog]:
        """The logs of the exchanges that run here."""
        return [exchange.log for exchange in self._running.values()]

    @property
    def foreign_logs(self) -> list[ExchangeLog]:
        """The logs of exchanges that have not ended, and don't run here: those that somebody follows or waits for.

        One that ran here and is without its end was taken over by another instance.
        """
        return [
            log
            for exchange_id, log in list(self._logs.items())
            if log.final is None
            and (log.is_followed or (exchange_id in self._kept and not log.is_waiting))
            and not self.holds(exchange_id)
        ]

    @property
    def draining(self) -> bool:
        return self.departure.has_begun

    def admit(self, user_id: str, begin: Callable[[], Coroutine[Any, Any, Result]]) -> asyncio.Task[Result]:
        """Run `begin`, which starts an exchange of the user's or refuses it; it takes the room of one until it is done.

        Raises ShuttingDown or TooManyRuns where no exchange may start now.
        """
        if self.draining:
            raise ShuttingDown(retry_after_s=1)
        if len(self._running) + len(self._admissions) >= self._max_running:
            raise TooManyRuns(retry_after_s=1)
        if self._running_per_user is not None and self._running_of(user_id) >= self._running_per_user:
            raise TooManyRuns(f"As many of your exchanges run as may: {self._running_per_user}.", retry_after_s=1)
        admission = self.spawn(begin())
        self._admissions[admission] = user_id
        admission.add_done_callback(self._admissions.pop)
        return admission

    def new_log(self, session_id: str | None, exchange_id: str, user_id: str) -> ExchangeLog:
        """A log that can be found here from now on."""
        log = ExchangeLog(session_id, exchange_id, user_id=user_id, compact_after=self._compact_after)
        self._logs[exchange_id] = log
        return log

    def start(self, exchange: RunningExchange) -> None:
        """Run `exchange` in a task of the relay's own, and show it to those who watch its session."""
        started = exchange.log
        self._running[started.exchange_id] = exchange
        if exchange.client_exchange_id is not None:
            self._by_name[started.user_id, exchange.client_exchange_id] = started.exchange_id
        if started.session_id is not None:
            self._by_session[started.session_id] = started.exchange_id
            self.publish(started)
            self._broadcast.started(started)
        self.spawn(self._run(exchange))
        self._show(started)

    def spawn(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Run `work` beside the exchanges, in a task that is held here and awaited when the relay closes.

        It starts in a context of its own: in that of a model's callback, which asks for a title, LangChain would take
        the title's tokens for tokens of the answer.
        """
        task = asyncio.create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._let_go)
        return task

    def find(self, exchange_id: str) -> ExchangeLog | None:
        """The log of an exchange, running or not, while it is kept here or followed."""
        log = self._logs.get(exchange_id)
        if log is None or log.final is None or log.is_followed:
            return log
        return log if exchange_id in self._running or exchange_id in self._kept else None

    def find_asked(self, user_id: str, client_exchange_id: str) -> ExchangeLog | None:
        """The log of what the user's ask of this name began, while it is here."""
        return self.find(self._by_name.get((user_id, client_exchange_id), ""))

    def running(self, exchange_id: str) -> RunningExchange | None:
        """The exchange of this id, while it runs here."""
        exchange = self._running.get(exchange_id)
        if exchange is None or exchange.settled.is_set() or exchange.log.final is not None:
            return None
        return exchange

    def is_at_work(self, log: ExchangeLog) -> bool:
        """Whether the exchange runs here: whoever follows it elsewhere would see less. One that waits doesn't run."""
        return self.running(log.exchange_id) is not None

    def holds(self, exchange_id: str) -> bool:
        """Whether the exchange runs here, or has ended here and is not stored yet."""
        exchange = self._running.get(exchange_id)
        return exchange is not None and not exchange.settled.is_set()

    def running_in(self, session_id: str) -> RunningExchange | None:
        """What runs here in the session."""
        return self.running(self._by_session.get(session_id, ""))

    async def admitted(self) -> None:
        """Until what is being admitted now has started, or is refused."""
        if self._admissions:
            await asyncio.wait(set(self._admissions))

    def mirror(self, session_id: str, exchange_id: str, user_id: str) -> ExchangeLog:
        """The log of an exchange that another instance runs; empty where nobody fills it."""
        log = self.find(exchange_id)
        if log is None:
            log = self.new_log(session_id, exchange_id, user_id)
            log.is_filling = log.is_mirrored = self._broadcast.mirror(log)
        else:
            log.is_mirrored = self._broadcast.mirror(log)
        return log

    def publish(self, log: ExchangeLog) -> None:
        """Show the other instances what is added here to the log of an exchange."""
        log.is_mirrored = False
        self._broadcast.publish(log)

    def stop_elsewhere(self, exchange_id: str) -> None:
        """Ask whoever runs the exchange to stop it."""
        self._broadcast.stop(exchange_id)

    def forget(self, session_id: str) -> None:
        """Keep nothing of a session that is being deleted; its exchanges have ended."""
        for exchange_id in [id for id, log in self._logs.items() if log.session_id == session_id]:
            del self._logs[exchange_id]
            # One that has just expired is gone already.
            self._kept.pop(exchange_id, None)

    def watch(self, session_id: str, follower: Follower, *, exchanges_too: bool) -> None:
        """Tell `follower` of the session's changes and, with `exchanges_too`, of every exchange that starts in it."""
        followers = self._followers.setdefault(session_id, {})
        followers[follower] = exchanges_too or followers.get(follower, False)

    def unwatch(self, session_id: str, follower: Follower) -> None:
        followers = self._followers.get(session_id, {})
        followers.pop(follower, None)
        if not followers:
            self._followers.pop(session_id, None)

    def session_changed(self, session: Session) -> None:
        self.changed_elsewhere(session)
        self._broadcast.changed(session)

    def stop_here(self, exchange_id: str) -> None:
        running = self.running(exchange_id)
        if running is not None:
            running.stop()

    def started_elsewhere(self, session_id: str, exchange_id: str, user_id: str) -> None:
        if self.find(exchange_id) is not None or any(self._followers.get(session_id, {}).values()):
            self._show(self.mirror(session_id, exchange_id, user_id))

    def changed_elsewhere(self, session: Session) -> None:
        for follower in list(self._followers.get(session.id, {})):
            follower.session_changed(session)

    def drain(self) -> None:
        """Start nothing more, and send clients away, each when nothing is at work here that it follows."""
        if not self.draining:
            self.departure.begin(self._grace_s / 2)

    async def aclose(self) -> None:
        """Drain, let what runs finish within the grace period, then interrupt it, and await every task.

        Where the departure is cut short, the grace period is over.
        """
        self.drain()
        await self._wait_settled()
        for exchange in list(self._running.values()):
            exchange.drain()
        await self.departure.wait(self._unsettled, _DRAIN_S)
        for exchange in list(self._running.values()):
            exchange.interrupt()
        await self.departure.wait(self._unsettled, _LAST_WORDS_S)
        # What is left names a session, or ignores that its exchange has ended: nobody waits for either any more.
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CANCEL_S)
        if not self.departure.cut_short.is_set():
            await self.departure.wait(lambda: self.departure.open_count, _LEAVE_S)
        self.departure.hurry()
        await self.departure.wait(lambda: self.departure.open_count, _LEAVE_S)

    async def _wait_settled(self) -> None:
        """Until everything that was admitted has ended and is stored, within the grace period."""
        settled = asyncio.create_task(self._settled())
        cut_short = asyncio.create_task(self.departure.cut_short.wait())
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

    def _show(self, log: ExchangeLog) -> None:
        for follower, exchanges_too in list(self._followers.get(log.session_id or "", {}).items()):
            if exchanges_too:
                follower.exchange_started(log)

    def _let_go(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        # Looked at here, because whoever waited for it may have gone.
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, AgenticError):
            log.error("a task failed", exc_info=error)

    async def _run(self, exchange: RunningExchange) -> None:
        exchange_id, session_id = exchange.log.exchange_id, exchange.log.session_id
        try:
            await exchange.run()
        finally:
            if self._running.get(exchange_id) is exchange:
                # It may go on already, after a pause.
                del self._running[exchange_id]
            if exchange_id in self._logs:
                # One that is larger than all that may be kept is not.
                with contextlib.suppress(ValueError):
                    self._kept[exchange_id] = exchange.log
            if session_id is not None and self._by_session.get(session_id) == exchange_id:
                del self._by_session[session_id]


def _size(log: ExchangeLog) -> int:
    return log.size
