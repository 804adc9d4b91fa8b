"""Measures how late the event loop is: how much longer than a second a sleep of a second takes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentic_backend.kpi import Kpi

_EVERY_S = 1.0


@asynccontextmanager
async def event_loop_lag(kpi: Kpi) -> AsyncIterator[None]:
    """Measure while the context is open."""
    measuring = asyncio.create_task(_measure(kpi))
    try:
        yield
    finally:
        measuring.cancel()
        await asyncio.wait({measuring})


async def _measure(kpi: Kpi) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        began = clock()
        await asyncio.sleep(_EVERY_S)
        kpi.event_loop_lag(max(0.0, clock() - began - _EVERY_S))
