"""The event loop: how late it is, work that runs beside a context or in a thread, whether the current task is
cancelled, and the loop of a command that serves nobody.
"""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import Any, NoReturn, ParamSpec, TypeVar

from agentic_backend.kpi import Kpi
from agentic_backend.loop.loop_load import LoopLoad, loop_load

_EVERY_S = 1.0
_THREADS = "command-loop"

# Looking through more, in characters or bytes, could be felt by others in the event loop.
_LONGEST_IN_LOOP = 4_096

T = TypeVar("T")
P = ParamSpec("P")


@asynccontextmanager
async def event_loop_lag(kpi: Kpi) -> AsyncIterator[LoopLoad]:
    """While the context is open, measure every second how late a sleep ends, and how long an answer would wait."""
    load = loop_load()
    kpi.process.loop_silent(lambda: load.silent_s)
    async with running(_measure(kpi, load)), running(_look_at_turns(load)):
        yield load


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` as a task while the context is open; then cancel it and wait for its end. Raises no errors of it."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _measure(kpi: Kpi, load: LoopLoad) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        load.turned()
        began = clock()
        await asyncio.sleep(_EVERY_S)
        kpi.process.loop_lag(max(0.0, clock() - began - _EVERY_S))


async def _look_at_turns(load: LoopLoad) -> None:
    while True:
        await load.look_at_turns()
        await asyncio.sleep(_EVERY_S)


async def in_thread_if_long(length: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`work(*args)`, in a thread if `length`, which is what its time is linear in, is more than a few thousand."""
    if length <= _LONGEST_IN_LOOP:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


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


def _raise_interrupt() -> NoReturn:
    raise KeyboardInterrupt


def run_until_ended(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], again: Callable[[], object] = _raise_interrupt
) -> T:
    """The result of `work`. Ctrl-C cancels it, and raises KeyboardInterrupt once it has ended; `again` is called at the
    next Ctrl-C, and by default raises at once. Signals are heard in the main thread only.

    What code of an agent raises to end the process stops the loop, but not the work.
    """
    task = loop.create_task(work)
    interrupts = 0

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts == 1:
            loop.call_soon_threadsafe(task.cancel)
        else:
            again()

    is_told = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, interrupt) if is_told else None
    try:
        while not task.done():
            try:
                loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt):
                if interrupts > 1:
                    raise
            except asyncio.CancelledError:
                break
    finally:
        if is_told:
            signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt
    return task.result()


def is_code_left() -> bool:
    """Whether code of a `command_loop` still blocks a thread; Python would wait for it at its end."""
    return any(thread.name.startswith(_THREADS) for thread in threading.enumerate())
