"""A loop ends when it is cancelled at the worst moment, and the metrics tell of one that does not turn."""

import asyncio
import time

import pytest
from support.recorded_agents import metric

from agentic_backend.kpi import Kpi
from agentic_backend.loop.event_loop import event_loop_lag, is_cancelled, running


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


async def test_the_metrics_tell_for_how_long_the_loop_has_not_turned() -> None:
    kpi = Kpi()
    async with event_loop_lag(kpi):
        await asyncio.sleep(0)
        time.sleep(1.2)
        assert metric(kpi, "chat_event_loop_silent_seconds") >= 1.2
