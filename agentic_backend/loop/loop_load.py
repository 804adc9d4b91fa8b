"""LoopLoad: how long what is ready waits for its turn of the event loop, and clocks that leave this time out.

A neighbour whose answer lies in a socket looks silent until the loop gets to it. So whoever bounds how long a model, a
tool, a store or another neighbour may take bounds the time in which the loop served, with `served_timeout` and its
like: the time by which the loop is late is its own.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from itertools import pairwise
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

# How often is looked whether the loop is late, in seconds, while somebody waits by it. A turn of the loop that takes
# no longer is no waiting.
_LOOK_EVERY_S = 0.05
# The turns of the loop that a short answer takes, from its ask to its end: 13 until its model is called.
_TURNS_OF_AN_ANSWER = 40
# A shorter wait can't be felt, in seconds.
_FELT_S = 0.1
# Less is not worth another timer, in seconds.
_SHORTEST_S = 0.001


class LoopLoad:
    """Of one event loop, and in its thread only, unless said otherwise."""

    def __init__(self) -> None:
        self._turned_at = time.monotonic()
        """Times are of the monotonic clock, which all threads have."""
        # By how much the looks so far were late, in seconds, and when the next one is due; None while nobody waits.
        self._late_s = 0.0
        self._due_at: float | None = None
        self._look_timer: asyncio.TimerHandle | None = None
        self._waiting = 0
        self._turns: deque[float] = deque(maxlen=_TURNS_OF_AN_ANSWER + 1)
        """When the last turns of the loop began, as many as an answer takes, while they are looked at."""

    @property
    def silent_s(self) -> float:
        """The seconds since the loop has turned last, as far as is known: it is noted every second, and at each turn
        while turns take long. From any thread.
        """
        return time.monotonic() - self._turned_at

    @property
    def answer_s(self) -> float:
        """How long an answer would wait for the loop in all, in seconds, by its last turns; 0 while that is too short
        to be felt. From any thread.

        Without the longest of them: a standstill that is over, or will be, says nothing of the others.
        """
        began = (*self._turns, time.monotonic())
        return began[-1] - began[0] - max((after - before for before, after in pairwise(began)), default=0.0)

    def turned(self) -> None:
        self._turned_at = time.monotonic()

    async def look_at_turns(self) -> None:
        """Measure `answer_s` until it is too short to be felt."""
        try:
            while len(self._turns) <= _TURNS_OF_AN_ANSWER or self.answer_s >= _FELT_S:
                self.turned()
                self._turns.append(self._turned_at)
                await asyncio.sleep(0)
        finally:
            self._turns.clear()

    def served_s(self) -> float:
        """A clock in seconds, which stands still while the loop is late and somebody is `waiting`."""
        now = time.monotonic()
        return now - self._late_s - self._late_now(now)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wraps a wait that `served_s` measures."""
        self.begin_waiting()
        try:
            yield
        finally:
            self.end_waiting()

    def begin_waiting(self) -> None:
        """Begin a wait that `served_s` measures; `end_waiting` ends it."""
        self._waiting += 1
        if self._due_at is None:
            self._look_again(time.monotonic())

    def end_waiting(self) -> None:
        self._waiting -= 1
        if not self._waiting and self._look_timer is not None:
            self._late_s += self._late_now(time.monotonic())
            self._look_timer.cancel()
            self._look_timer = self._due_at = None

    def _late_now(self, now: float) -> float:
        return 0.0 if self._due_at is None else max(0.0, now - self._due_at)

    def _look(self) -> None:
        now = time.monotonic()
        self._late_s += self._late_now(now)
        self._look_again(now)

    def _look_again(self, now: float) -> None:
        self._due_at = now + _LOOK_EVERY_S
        # In a context of its own: that of the first who waited would live on as long as anybody waits.
        self._look_timer = asyncio.get_running_loop().call_later(_LOOK_EVERY_S, self._look, context=Context())


_LOADS: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopLoad] = WeakKeyDictionary()


def loop_load() -> LoopLoad:
    """That of the running event loop."""
    loop = asyncio.get_running_loop()
    load = _LOADS.get(loop)
    if load is None:
        load = _LOADS[loop] = LoopLoad()
    return load


class served_timer:
    """Calls `end` if the context is still open after `longest_s` in which the loop served.

    A class, which takes half of what a generator takes: each call of the store and each piece of a body has one.
    """

    __slots__ = ("_end", "_ends_at", "_load", "_longest_s", "_loop", "_timer")

    def __init__(self, longest_s: float, end: Callable[[], object]) -> None:
        self._longest_s = longest_s
        self._end = end

    def __enter__(self) -> None:
        self._load, self._loop = loop_load(), asyncio.get_running_loop()
        self._ends_at = self._load.served_s() + self._longest_s
        self._load.begin_waiting()
        self._timer = self._loop.call_later(self._longest_s, self._look)

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._load.end_waiting()

    def _look(self) -> None:
        rest_s = self._ends_at - self._load.served_s()
        if rest_s > _SHORTEST_S:
            self._timer = self._loop.call_later(rest_s, self._look)
        else:
            self._end()


class served_timeout:
    """`asyncio.timeout` by the time in which the loop served; None is no limit."""

    def __init__(self, longest_s: float | None) -> None:
        self._timeout = asyncio.timeout(None)
        self._timer = None if longest_s is None else served_timer(longest_s, self._end)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        if self._timer is not None:
            self._timer.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises TimeoutError."""
        if self._timer is not None:
            self._timer.__exit__()
        await self._timeout.__aexit__(kind, error, trace)

    def _end(self) -> None:
        self._timeout.reschedule(asyncio.get_running_loop().time())


async def wait_served(task: asyncio.Future[Any], longest_s: float) -> None:
    """Wait until `task` is done, for at most so long; it is not cancelled then."""
    over = asyncio.get_running_loop().create_future()

    def end(_: object = None) -> None:
        if not over.done():
            over.set_result(None)

    task.add_done_callback(end)
    try:
        with served_timer(longest_s, end):
            await over
    finally:
        task.remove_done_callback(end)
