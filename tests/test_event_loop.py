"""A loop ends when it is cancelled at the worst moment."""

import asyncio

import pytest

from agentic_backend.event_loop import is_cancelled, running


async def test_a_loop_ends_though_its_cancellation_comes_together_with_a_result() -> None:
    results: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()

    async def read_on() -> None:
        while not is_cancelled():
            result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            results.put_nowait(result)
            await asyncio.wait_for(result, 60)

    reading = asyncio.create_task(read_on())
    for _ in range(3):
        (await results.get()).set_result(None)
    last = await results.get()
    await asyncio.sleep(0)
    last.set_result(None)
    reading.cancel()
    await asyncio.wait({reading}, timeout=5)
    assert reading.done()


async def test_work_runs_while_the_context_is_open_and_has_ended_after_it() -> None:
    began, steps = asyncio.Event(), []

    async def work() -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("ended")

    with pytest.raises(ZeroDivisionError):
        async with running(work()):
            await began.wait()
            steps.append("open")
            raise ZeroDivisionError
    assert steps == ["open", "ended"]
