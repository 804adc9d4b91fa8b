"""The event loop: how late it is, work that runs beside a context, whether the current task is cancelled, and the loop
of a command that serves nobody.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from agentic_backend.kpi import Kpi

_EVERY_S = 1.0
_THREADS = "command-loop"


class LoopBeat:
    """Tells any thread for how long the event loop has not turned."""

    def __init__(self) -> None:
        # By the clock of all threads.
        self._last = time.monotonic()

    def beat(self) -> None:
        self._last = time.monotonic()

    @property
    def silent_s(self) -> float:
        """The seconds since the last beat; one comes every second."""
        return time.monotonic() - self._last


@asynccontextmanager
async def event_loop_lag(kpi: Kpi) -> AsyncIterator[LoopBeat]:
    """While the context is open, measure how late a sleep of one second ends."""
    beat = LoopBeat()
    kpi.process.loop_silent(lambda: beat.silent_s)
    async with running(_measure(kpi, beat)):
        yield beat


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` as a task while the context is open; then cancel it and wait for its end. Raises no errors of it."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _measure(kpi: Kpi, beat: LoopBeat) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        beat.beat()
        began = clock()
        await asyncio.sleep(_EVERY_S)
        kpi.process.loop_lag(max(0.0, clock() - began - _EVERY_S))


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def is_cancelled() -> bool:
    """Whether the current task was cancelled, even if no CancelledError was raised.

    Before Python 3.12, `asyncio.wait_for`, which drivers use, swallows a cancellation that arrives with its result.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@contextmanager
def command_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A new event loop for a command. Its end doesn't wait for code that blocks a thread: see `is_code_left`."""
    loop, threads = asyncio.new_event_loop(), ThreadPoolExecutor(thread_name_prefix=_THREADS)
    loop.set_default_executor(threads)
    try:
        yield loop
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        loop.close()


def is_code_left() -> bool:
    """Whether code of a `command_loop` still blocks a thread; Python would wait for it at its end."""
    return any(thread.name.startswith(_THREADS) for thread in threading.enumerate())
