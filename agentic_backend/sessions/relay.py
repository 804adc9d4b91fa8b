"""Relay: owns the task of every exchange and its log; sockets come and go beside it.

An exchange belongs to its session, not to a socket. The relay keeps the logs of running exchanges, and those of ended
ones for a while, and tells whoever watches a session of its new exchanges and its changes.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Protocol, TypeVar

from cachetools import LRUCache, TTLCache

from agentic_backend.errors import AgenticError, ShuttingDown, TooManyRuns
from agentic_backend.protocol.messages import Session
from agentic_backend.sessions.exchange_log import ExchangeLog

log = logging.getLogger(__name__)

Result = TypeVar("Result")

# What an exchange that was interrupted may take to store its last messages; above what the store itself may take.
_LAST_WORDS_S = 10.0
_CANCEL_S = 1.0


class RunningExchange(Protocol):
    @property
    def log(self) -> ExchangeLog: ...

    @property
    def owner_id(self) -> str:
        """The user whose exchange it is."""
        ...

    @property
    def client_exchange_id(self) -> str | None:
        """The name that the client gave it, unique for its user."""
        ...

    @property
    def settled(self) -> asyncio.Event:
        """Set when it has ended and no more of it will be stored; a tool that ignores this may still run."""
        ...

    async def run(self) -> None:
        """Run to the end. Never raises: what goes wrong becomes the exchange's own ending."""
        ...

    def stop(self) -> None:
        """End it as stopped, soon."""
        ...

    def interrupt(self) -> None:
        """End it as interrupted, soon: the process is going."""
        ...


class Follower(Protocol):
    def exchange_started(self, log: ExchangeLog) -> None: ...

    def session_changed(self, session: Session) -> None: ...


class Relay:
    """`aclose` ends what runs; until then every task that was started here is held here."""

    def __init__(
        self, *, keep_ended: int, keep_ended_s: float, compact_after: int, max_running: int, grace_s: float
    ) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._admissions: set[asyncio.Task[Any]] = set()
        self._running: dict[str, RunningExchange] = {}
        self._ended: TTLCache[str, RunningExchange] = TTLCache(keep_ended, keep_ended_s)
        self._by_session: dict[str, str] = {}
        self._by_name: LRUCache[tuple[str, str], str] = LRUCache(keep_ended + max_running)
        self._followers: dict[str, dict[Follower, bool]] = {}
        self._compact_after = compact_after
        self._max_running = max_running
        self._grace_s = grace_s
        self._draining = False

    @property
    def running_count(self) -> int:
        """How many exchanges share this process."""
        return len(self._running)

    @property
    def draining(self) -> bool:
        return self._draining

    def admit(self, begin: Callable[[], Coroutine[Any, Any, Result]]) -> asyncio.Task[Result]:
        """Run `begin`, which starts an exchange or refuses it; it takes the room of one until it is done.

        Raises ShuttingDown or TooManyRuns where no exchange may start now.
        """
        if self._draining:
            raise ShuttingDown
        if len(self._running) + len(self._admissions) >= self._max_running:
            raise TooManyRuns(retry_after_s=1)
        admission = self.spawn(begin())
        self._admissions.add(admission)
        admission.add_done_callback(self._admissions.discard)
        return admission

    def new_log(self, session_id: str | None, exchange_id: str) -> ExchangeLog:
        return ExchangeLog(session_id, exchange_id, compact_after=self._compact_after)

    def start(self, exchange: RunningExchange) -> None:
        """Run `exchange` in a task of the relay's own, and show it to those who watch its session."""
        started = exchange.log
        self._running[started.exchange_id] = exchange
        if started.session_id is not None:
            self._by_session[started.session_id] = started.exchange_id
        if exchange.client_exchange_id is not None:
            self._by_name[exchange.owner_id, exchange.client_exchange_id] = started.exchange_id
        self.spawn(self._run(exchange))
        for follower, exchanges_too in list(self._followers.get(started.session_id or "", {}).items()):
            if exchanges_too:
                follower.exchange_started(started)

    def spawn(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Run `work` beside the exchanges, in a task that is held here and awaited when the relay closes.

        It starts in a context of its own: in that of a model's callback, which asks for a title, LangChain would take
        the title's tokens for tokens of the answer.
        """
        task = asyncio.create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._let_go)
        return task

    def find(self, exchange_id: str) -> RunningExchange | None:
        """A running exchange, or one that ended a short while ago."""
        return self._running.get(exchange_id) or self._ended.get(exchange_id)

    def find_asked(self, owner_id: str, client_exchange_id: str) -> RunningExchange | None:
        """What the user's ask of this name began, while its log is here."""
        return self.find(self._by_name.get((owner_id, client_exchange_id), ""))

    def forget(self, session_id: str) -> None:
        """Keep nothing of a session that is being deleted; its exchanges have ended."""
        for exchanges in (self._running, self._ended):
            for exchange_id in [id for id, exchange in exchanges.items() if exchange.log.session_id == session_id]:
                # One that has just expired is gone already.
                exchanges.pop(exchange_id, None)

    def running_in(self, session_id: str) -> RunningExchange | None:
        exchange = self._running.get(self._by_session.get(session_id, ""))
        return exchange if exchange is not None and exchange.log.final is None else None

    def watch(self, session_id: str, follower: Follower, *, exchanges_too: bool) -> None:
        """Tell `follower` of the session's changes and, with `exchanges_too`, of each exchange that starts in it."""
        followers = self._followers.setdefault(session_id, {})
        followers[follower] = exchanges_too or followers.get(follower, False)

    def unwatch(self, session_id: str, follower: Follower) -> None:
        followers = self._followers.get(session_id, {})
        followers.pop(follower, None)
        if not followers:
            self._followers.pop(session_id, None)

    def session_changed(self, session: Session) -> None:
        for follower in list(self._followers.get(session.id, {})):
            follower.session_changed(session)

    async def aclose(self) -> None:
        """Start nothing more, let what runs finish within the grace period, then interrupt it, and await every task."""
        self._draining = True
        await self._wait_settled(self._grace_s)
        for exchange in list(self._running.values()):
            exchange.interrupt()
        await self._wait_settled(_LAST_WORDS_S)
        # What is left names a session, or ignores that its exchange has ended: nobody waits for either any more.
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CANCEL_S)

    async def _wait_settled(self, timeout_s: float) -> None:
        """Until everything that was admitted has ended and is stored, at most for `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._admissions:
                    await asyncio.wait(self._admissions)
                for exchange in list(self._running.values()):
                    await exchange.settled.wait()

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
            if self._running.pop(exchange_id, None) is not None:
                self._ended[exchange_id] = exchange
            if session_id is not None and self._by_session.get(session_id) == exchange_id:
                del self._by_session[session_id]
