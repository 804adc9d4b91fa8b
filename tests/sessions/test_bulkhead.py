"""Bulkhead: one user's work at once is bounded, and what waits for it delays nobody else."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from agentic_backend.errors import RateLimited
from agentic_backend.sessions.bulkhead import Bulkhead


def a_bulkhead(*, per_user: int | None = 2, in_all: int | None = 3, wait_s: float = 0.05) -> Bulkhead:
    return Bulkhead(per_user=per_user, in_all=in_all, wait_s=wait_s, content="too many")


async def test_a_user_has_so_much_room_and_others_have_theirs() -> None:
    bulkhead = a_bulkhead()
    async with bulkhead.entered("ann"), bulkhead.entered("ann"):
        with pytest.raises(RateLimited) as refusal:
            async with bulkhead.entered("ann"):
                pass
        assert refusal.value.content == "too many" and refusal.value.retry_after_s
        async with bulkhead.entered("bob"):
            with pytest.raises(RateLimited):
                async with bulkhead.entered("cid"):
                    pass
        async with bulkhead.entered("cid"):
            pass
    async with bulkhead.entered("ann"):
        pass


async def test_who_waits_enters_when_there_is_room() -> None:
    bulkhead, entered = a_bulkhead(per_user=1, wait_s=10), list[int]()

    async def work(number: int) -> None:
        async with bulkhead.entered("ann"):
            entered.append(number)

    async with bulkhead.entered("ann"):
        waiting = [asyncio.create_task(work(number)) for number in range(3)]
        await asyncio.sleep(0.01)
        assert not entered
    await asyncio.gather(*waiting)
    assert entered == [0, 1, 2]


async def test_what_waits_is_bounded_too() -> None:
    bulkhead = a_bulkhead(per_user=1, wait_s=10)

    async def work() -> None:
        async with bulkhead.entered("ann"):
            pass

    async with bulkhead.entered("ann"):
        tasks = [asyncio.create_task(work()) for _ in range(20)]
        done, waiting = await asyncio.wait(tasks, timeout=0.05)
        assert len(waiting) == 4
        assert all(isinstance(task.exception(), RateLimited) for task in done)
    await asyncio.gather(*waiting)


async def test_who_waits_for_their_own_room_takes_nobody_else_s() -> None:
    bulkhead = a_bulkhead(per_user=1, in_all=2, wait_s=10)
    async with bulkhead.entered("ann"):
        waiting = asyncio.create_task(AsyncExitStack().enter_async_context(bulkhead.entered("ann")))
        await asyncio.sleep(0.01)
        async with asyncio.timeout(5), bulkhead.entered("bob"):
            pass
        waiting.cancel()
        await asyncio.wait({waiting})
    async with asyncio.timeout(5), bulkhead.entered("ann"):
        pass


async def test_without_limits_everybody_enters() -> None:
    bulkhead = a_bulkhead(per_user=None, in_all=None)
    async with AsyncExitStack() as stack:
        for _ in range(100):
            await stack.enter_async_context(bulkhead.entered("ann"))
