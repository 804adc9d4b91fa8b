"""LoopThread: an event loop in a thread, so that the connection lives while the main thread waits for a line."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_END_S = 10


class LoopThread:
    """A context manager; at its end what still runs is cancelled."""

    def __init__(self) -> None:
        self._begun = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._stay()), name="client", daemon=True)
        """A daemon: no task that hangs keeps the process from its end."""

    def __enter__(self) -> "LoopThread":
        self._thread.start()
        self._begun.wait()
        return self

    def __exit__(self, *raised: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(_END_S)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it in the loop, and wait for its result; Ctrl-C cancels it."""
        running = self.begin(work)
        try:
            return running.result()
        except KeyboardInterrupt:
            running.cancel()
            raise

    def begin(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run it in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _stay(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._begun.set()
        await self._end.wait()
