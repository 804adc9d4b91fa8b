"""How long others wait for the event loop while something is done."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from agentic_backend.loop.event_loop import running


async def timed(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """How long the work took, and the longest time for which others waited for the loop meanwhile, in seconds."""
    longest_s = 0.0

    async def look() -> None:
        nonlocal longest_s
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            longest_s = max(longest_s, time.perf_counter() - began - 0.001)

    async with running(look()):
        began = time.perf_counter()
        await work()
        return time.perf_counter() - began, longest_s
