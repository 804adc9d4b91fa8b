"""Outages: what the store could not do is tried again until it can, or whoever wants it has no more time."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentic_backend.errors import StoreUnavailable

Result = TypeVar("Result")

_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.1, 3.0
# All that runs finds the store away at the same moment, and should not find it back at the same moment.
_JITTER = 0.8, 1.2


async def until_stored(work: Callable[[], Awaitable[Result]], wait: Callable[[float], Awaitable[bool]]) -> Result:
    """What `work` returns; while the store is away it is tried again, ever less often.

    `wait` waits so many seconds, or less, and says whether to try again. Raises StoreUnavailable where it says no, and
    whatever else `work` raises.
    """
    retry_s = _FIRST_RETRY_S
    while True:
        try:
            return await work()
        except StoreUnavailable:
            if not await wait(retry_s * random.uniform(*_JITTER)):
                raise
        retry_s = min(retry_s * 2, _LONGEST_RETRY_S)


def for_seconds(longest_s: float) -> Callable[[float], Awaitable[bool]]:
    """For `until_stored`: try again until so much time has passed from now on."""
    clock = asyncio.get_running_loop().time
    gives_up_at = clock() + longest_s

    async def wait(retry_s: float) -> bool:
        await asyncio.sleep(retry_s)
        return clock() < gives_up_at

    return wait
