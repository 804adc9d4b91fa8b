"""LimitWatch: tells in the log when the process comes near its limit of memory or threads, and when that is over.

In a thread of its own: what takes the memory may hold the event loop too.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from agentic_backend.agents.run.blocking_threads import busy_threads
from agentic_backend.kpi.limits.limit_use import LimitUse, nearest
from agentic_backend.kpi.limits.memory_use import memory_use
from agentic_backend.kpi.limits.thread_use import thread_use

log = logging.getLogger(__name__)

NEAR = 0.9
"""The share of a limit beyond which it is near, as the alerts MemoryNearLimit and ThreadsShort have it."""
# Below it, so that a process that stays at the limit is not told of again and again.
_OVER = 0.85
_EVERY_S = 2.0
_MOST_AGENTS = 5

MemoryOf = Callable[[], LimitUse | None]
ThreadsOf = Callable[[], tuple[LimitUse | None, Counter[str]]]
"""How many threads there are of the limit that is nearest, and how many agents hold, by their ids."""


@dataclass(slots=True)
class _Nearness:
    is_near: bool = False

    def changes(self, ratio: float) -> bool:
        """Whether it got near, or is so no longer."""
        was = self.is_near
        self.is_near = ratio >= _OVER if was else ratio > NEAR
        return was != self.is_near


class LimitWatch:
    """One line when a limit gets near, one when it is so no longer; each worker tells them."""

    def __init__(self, memory: MemoryOf, threads: ThreadsOf) -> None:
        self._memory, self._threads = memory, threads
        self._of_memory, self._of_threads = _Nearness(), _Nearness()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="limit-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def look(self) -> None:
        """Compare what is used with the limits now."""
        memory = self._memory()
        if self._of_memory.changes(memory.ratio if memory else 0.0):
            fields = {} if memory is None else {"used_bytes": memory.used, "limit_bytes": memory.limit}
            if self._of_memory.is_near:
                log.warning("memory near its limit", extra=fields)
            else:
                log.info("memory no longer near its limit", extra=fields)
        threads, by_agent = self._threads()
        if self._of_threads.changes(threads.ratio if threads else 0.0):
            told = {} if threads is None else {"used": threads.used, "limit": threads.limit}
            if self._of_threads.is_near:
                log.warning(
                    "threads near their limit", extra=told | {"agents": dict(by_agent.most_common(_MOST_AGENTS))}
                )
            else:
                log.info("threads no longer near their limit", extra=told)

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self.look()


@contextmanager
def watched_limits(pool: ThreadPoolExecutor | None, pool_limit: int) -> Iterator[None]:
    """Watch the process's memory and threads while the context is open, among them those of `pool`, if there is one."""

    def threads() -> tuple[LimitUse | None, Counter[str]]:
        busy = Counter[str]() if pool is None else busy_threads(pool)
        return nearest(filter(None, (thread_use(), LimitUse(busy.total(), pool_limit)))), busy

    watch = LimitWatch(memory_use, threads)
    watch.start()
    try:
        yield
    finally:
        watch.close()
