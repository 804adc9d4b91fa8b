"""The heartbeat of an instance: a thread that moves its counter in the store while its event loop shows signs of life.

If the counter stands still, others take the instance for dead; they need not compare clocks for that. It is a thread,
since an agent may block the event loop for longer than a lease; but it beats on only for a while, so that an instance
whose loop is blocked for good loses its exchanges. Code that holds Python's global lock all that time, such as a
backtracking regular expression, stops the thread too.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator
from typing import Protocol

from agentic_backend.system_errors import summary_of

_LOG = logging.getLogger("agentic_backend.stores")
LOOP_PATIENCE_S = 60.0
"""The longest time that the event loop may be blocked before the heartbeat stops."""
_SIGN_EVERY_S = 1.0
# After a failed beat the next one comes sooner.
_RETRY_S = 0.5
# A process that ends has little time.
_END_S = 0.6


class Beats(Protocol):
    """Moves the counter of one instance; used in the heartbeat's thread only."""

    def beat(self) -> None:
        """Raises any error if the counter could not be moved; soon, or beats come late."""
        ...

    def leave(self) -> None:
        """Remove the counter, and close what it was moved with. Never raises the store's errors."""
        ...


@contextlib.asynccontextmanager
async def beating(beats: Beats, instance_id: str, every_s: float, loop_patience_s: float) -> AsyncIterator[None]:
    """Run the heartbeat while the context is open; then remove the instance's counter."""
    heart = _Heart(beats, every_s, loop_patience_s)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        heart.run()
        # The loop may be closed already, if the end took too long.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    # A daemon, so that an unreachable store doesn't keep the process from ending.
    threading.Thread(target=run, name=f"heartbeat {instance_id}", daemon=True).start()
    signs = asyncio.create_task(heart.show_signs())
    try:
        yield
    finally:
        heart.stopping.set()
        signs.cancel()
        await asyncio.wait({signs})
        # Not joined in the loop's thread pool: agents may have blocked all its threads.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await ended.wait()


class _Heart:
    """`run` runs in the thread, `show_signs` in the event loop."""

    def __init__(self, beats: Beats, every_s: float, loop_patience_s: float) -> None:
        self.stopping = threading.Event()
        self._beats = beats
        self._every_s = every_s
        self._loop_patience_s = loop_patience_s
        self._sign_at = time.monotonic()
        """Time of the event loop's last sign of life."""
        self._is_failing = False

    async def show_signs(self) -> None:
        while True:
            self._sign_at = time.monotonic()
            await asyncio.sleep(_SIGN_EVERY_S)

    def run(self) -> None:
        """Beat until `stopping` is set, then leave."""
        wait_s = self._every_s
        while not self.stopping.wait(wait_s):
            wait_s = self._every_s
            if time.monotonic() - self._sign_at > self._loop_patience_s:
                self._tell("the event loop is blocked")
            elif not self._beat():
                wait_s = min(self._every_s, _RETRY_S)
        self._beats.leave()

    def _beat(self) -> bool:
        try:
            self._beats.beat()
        except Exception as error:
            # The thread must not end, or others take all exchanges of this instance for dead. The error's text is not
            # logged: a driver's may hold the URL.
            self._tell(summary_of(error))
            return False
        if self._is_failing:
            _LOG.info("heartbeat works again")
        self._is_failing = False
        return True

    def _tell(self, reason: str) -> None:
        if not self._is_failing:
            _LOG.warning("heartbeat fails", extra={"reason": reason})
        self._is_failing = True
