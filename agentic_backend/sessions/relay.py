"""Relay: owns the task of every exchange and its log; sockets come and go beside it.

An exchange belongs to its session, not to a socket. The relay keeps the logs of running exchanges, and those of ended
ones for a while, and tells whoever watches a session of its new exchanges and its changes.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from cachetools import LRUCache, TTLCache

from agentic_backend.errors import AgenticError, ShuttingDown, TooManyRuns
from agentic_backend.protocol.messages import Session
from agentic_backend.sessions.exchange_log import ExchangeLog

log = logging.getLogger(__name__)

Result = TypeVar("Result")


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

    def require_room(self) -> None:
        """Raises ShuttingDown or TooManyRuns where no exchange may start now."""
        if self._draining:
            raise ShuttingDown
        if len(self._running) >= self._max_running:
            raise TooManyRuns(retry_after_s=1)

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
        """Run `work` beside the exchanges, in a task that is held here and awaited when the relay closes."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._let_go)
        return task

    def find(self, exchange_id: str) -> RunningExchange | None:
        """A running exchange, or one that ended a short while ago."""
        return self._running.get(exchange_id) or self._ended.get(exchange_id)

    def find_asked(self, owner_id: str, client_exchange_id: str) -> RunningExchange | None:
        """What the user's ask of this name began, while its log is here."""
        return self.find(self._by_name.get((owner_id, client_exchange_id), ""))

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
        """Start nothing more, let what runs finish within the grace period, then interrupt and await the rest."""
        self._draining = True
        await self._wait(self._grace_s)
        for exchange in list(self._running.values()):
            exchange.interrupt()
        await self._wait(self._grace_s)
        # What is left ignores its interruption; cancelling is the last thing that can be tried.
        for task in self._tasks:
            task.cancel()
        await self._wait(self._grace_s)

    async def _wait(self, timeout_s: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

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
            del self._running[exchange_id]
            self._ended[exchange_id] = exchange
            if session_id is not None and self._by_session.get(session_id) == exchange_id:
                del self._by_session[session_id]
