"""Who holds the threads for blocking code, seen from outside."""

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest
from langchain_core.runnables import run_in_executor

from agentic_backend.agents.run.at_work import AtWork, at_work
from agentic_backend.agents.run.blocking_threads import busy_threads

PATIENCE_S = 20


@pytest.fixture
async def threads() -> AsyncIterator[ThreadPoolExecutor]:
    threads = ThreadPoolExecutor(8)
    asyncio.get_running_loop().set_default_executor(threads)
    yield threads
    threads.shutdown(wait=False)


def works(agent_id: str) -> AtWork:
    return AtWork(agent_id, MappingProxyType({}), lambda data: None)


async def test_each_thread_counts_for_the_agent_whose_code_it_runs(threads: ThreadPoolExecutor) -> None:
    over = threading.Event()
    wait = partial(over.wait, PATIENCE_S)
    assert busy_threads(threads) == {}
    calls = [asyncio.create_task(asyncio.to_thread(wait))]
    with at_work(works("crawler")):
        calls += [asyncio.create_task(asyncio.to_thread(wait)) for _ in range(3)]
    with at_work(works("poet")):
        # As LangChain runs plain functions.
        calls.append(asyncio.create_task(run_in_executor(None, wait)))
    direct = threads.submit(wait)
    async with asyncio.timeout(PATIENCE_S):
        while busy_threads(threads).total() < 6:
            await asyncio.sleep(0.01)
    assert busy_threads(threads) == {"crawler": 3, "poet": 1, "": 2}
    over.set()
    await asyncio.gather(*calls, asyncio.wrap_future(direct))
    async with asyncio.timeout(PATIENCE_S):
        while busy_threads(threads):
            await asyncio.sleep(0.01)


class Unasked:
    """An author's callable that fails when it is asked for anything else, as a proxy outside of its request."""

    def __init__(self, over: threading.Event) -> None:
        self.over = over

    def __getattr__(self, name: str) -> object:
        raise RuntimeError

    def __bool__(self) -> bool:
        raise RuntimeError

    def __call__(self) -> None:
        self.over.wait(PATIENCE_S)


@pytest.mark.parametrize("wrapped", [lambda callable_: callable_, partial])
async def test_an_authors_callable_is_only_called(threads: ThreadPoolExecutor, wrapped: Any) -> None:
    over = threading.Event()
    call = threads.submit(wrapped(Unasked(over)))
    async with asyncio.timeout(PATIENCE_S):
        while not busy_threads(threads):
            await asyncio.sleep(0.01)
    assert busy_threads(threads) == {"": 1}
    over.set()
    await asyncio.wrap_future(call)
