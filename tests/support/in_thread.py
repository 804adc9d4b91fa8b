"""Asynchronous parts in a thread of their own, for tests that are not coroutines."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def in_thread(opened: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """What the context yields, while it is open in the event loop of another thread."""
    yielded: list[T] = []
    failed: list[BaseException] = []
    started = threading.Event()
    ends: list[Callable[[], object]] = []

    async def run() -> None:
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        ends.append(lambda: loop.call_soon_threadsafe(end.set))
        async with opened() as value:
            yielded.append(value)
            started.set()
            await end.wait()

    def thread() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            failed.append(error)
        finally:
            started.set()

    running = threading.Thread(target=thread)
    running.start()
    started.wait()
    try:
        if yielded:
            yield yielded[0]
    finally:
        if not failed:
            ends[0]()
        running.join()
    if failed:
        raise failed[0]
