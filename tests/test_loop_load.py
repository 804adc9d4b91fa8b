"""What waits for the event loop is not taken for a neighbour's silence."""

import asyncio
import gc
import threading
import time
import weakref

import pytest
import uvloop

from agentic_backend.loop.loop_load import loop_load, served_timeout, served_timer, wait_served

LIMIT_S = 0.3
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def late(loop_is_late_s: float) -> None:
    """Occupy the event loop."""
    time.sleep(loop_is_late_s)


async def answer_of_a_thread() -> str:
    """Comes at once, and a late loop finds it as late as the end of its time."""
    loop, answer = asyncio.get_running_loop(), asyncio.Future[str]()
    threading.Thread(target=lambda: loop.call_soon_threadsafe(answer.set_result, "here")).start()
    return await answer


@pytest.mark.parametrize("new_loop", LOOPS.values(), ids=LOOPS)
def test_an_answer_that_is_there_is_in_time_however_late_the_loop_is(new_loop: object) -> None:
    async def ask() -> list[str]:
        async with served_timeout(LIMIT_S):
            asking = [asyncio.create_task(answer_of_a_thread()) for _ in range(3)]
            for _ in range(5):
                late(LIMIT_S)
                # Turns in which others have the loop.
                await asyncio.sleep(0)
            return await asyncio.gather(*asking)

    with asyncio.Runner(loop_factory=new_loop) as runner:  # type: ignore[arg-type]
        assert runner.run(ask()) == ["here"] * 3


async def test_a_neighbour_that_is_silent_while_the_loop_serves_ends_in_time() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        async with served_timeout(LIMIT_S):
            late(LIMIT_S)
            await asyncio.Event().wait()
    assert time.monotonic() - began >= 2 * LIMIT_S - 0.1


async def test_no_limit_is_none() -> None:
    async with served_timeout(None):
        await asyncio.sleep(0)


async def test_a_cancellation_stays_one() -> None:
    async def wait() -> None:
        async with served_timeout(60):
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_task_that_is_waited_for_goes_on() -> None:
    go_on = asyncio.Event()
    task = asyncio.create_task(go_on.wait())
    await wait_served(task, 0.01)
    assert not task.done()
    go_on.set()
    async with asyncio.timeout(60):
        await wait_served(task, 3600)
    assert task.result()


async def test_a_timer_that_was_left_ends_nothing() -> None:
    ended: list[str] = []
    with served_timer(0.01, lambda: ended.append("left")):
        pass
    over = asyncio.Event()
    with served_timer(0.02, over.set):
        async with asyncio.timeout(60):
            await over.wait()
    assert ended == []


async def test_the_clock_stands_still_only_while_somebody_waits_by_it() -> None:
    load, clock = loop_load(), asyncio.get_running_loop().time
    began, served = clock(), load.served_s()
    late(0.2)
    assert load.served_s() - served >= 0.2
    served = load.served_s()
    with load.waiting():
        for _ in range(3):
            late(0.2)
            await asyncio.sleep(0)
    assert load.served_s() - served <= clock() - began - 0.2 - 0.3
    served = load.served_s()
    late(0.2)
    assert load.served_s() - served >= 0.2


def test_a_loop_that_was_closed_is_forgotten() -> None:
    async def wait() -> None:
        async with served_timeout(1):
            await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(wait())
    loop.close()
    gone = weakref.ref(loop)
    del loop
    gc.collect()
    assert gone() is None


async def test_a_standstill_that_is_over_is_no_backlog() -> None:
    load = loop_load()
    looking = asyncio.create_task(load.look_at_turns())
    for _ in range(10):
        await asyncio.sleep(0)
    late(0.5)
    await asyncio.sleep(0)
    assert load.answer_s < 0.5
    await looking


async def test_an_answer_waits_as_long_as_its_turns_of_the_loop_take() -> None:
    load, is_over = loop_load(), False
    await load.look_at_turns()
    assert load.answer_s == 0, "nothing else is at work"

    async def occupy() -> None:
        while not is_over:
            late(0.01)
            await asyncio.sleep(0)

    busy = asyncio.create_task(occupy())
    looking = asyncio.create_task(load.look_at_turns())
    began = time.monotonic()
    for _ in range(200):
        await asyncio.sleep(0)
    assert 0.3 < load.answer_s < (time.monotonic() - began) / 2, "forty turns, not all of them"
    is_over = True
    await asyncio.gather(busy, looking)
    assert load.answer_s == 0
