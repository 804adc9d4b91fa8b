"""MemoryWatch: tells in the log when the process comes near its memory limit, and when that is over.

In a thread of its own: what takes the memory may hold the event loop too.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentic_backend.kpi.memory_use import MemoryUse, memory_use

log = logging.getLogger(__name__)

NEAR = 0.9
"""The share of the limit beyond which it is near, as the alert MemoryNearLimit has it."""
# Below it, so that a process that stays at the limit is not told of again and again.
_OVER = 0.85
_EVERY_S = 2.0


class MemoryWatch:
    """One line when the limit gets near, one when it is so no longer; each worker tells them."""

    def __init__(self, use: Callable[[], MemoryUse | None] = memory_use) -> None:
        self._use = use
        self._is_near = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def look(self) -> None:
        """Compare what is used with the limit now."""
        use = self._use()
        ratio = 0.0 if use is None else use.ratio
        fields = {} if use is None else {"used_bytes": use.used, "limit_bytes": use.limit}
        if not self._is_near and ratio > NEAR:
            self._is_near = True
            log.warning("memory near its limit", extra=fields)
        elif self._is_near and ratio < _OVER:
            self._is_near = False
            log.info("memory no longer near its limit", extra=fields)

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self.look()


@contextmanager
def watched_memory() -> Iterator[None]:
    """Watch the process's memory while the context is open."""
    watch = MemoryWatch()
    watch.start()
    try:
        yield
    finally:
        watch.close()
