"""Retries of calls that failed because the store was unavailable."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentic_backend.backoff import backoff
from agentic_backend.errors import StoreUnavailable

Result = TypeVar("Result")

_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.1, 3.0


async def until_stored(
    work: Callable[[], Awaitable[Result]], wait: Callable[[float], Awaitable[bool]], retried: Callable[[], None]
) -> Result:
    """Call `work` until the store answers, with growing delays, and return its result.

    `wait` gets the delay in seconds, may wait for less, and returns whether to try again, which `retried` counts.

    Raises StoreUnavailable if it returns False, and any other error of `work`.
    """
    delays = backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
    while True:
        try:
            return await work()
        except StoreUnavailable:
            if not await wait(next(delays)):
                raise
        retried()


def for_seconds(longest_s: float) -> Callable[[float], Awaitable[bool]]:
    """A `wait` for `until_stored` that allows retries for `longest_s` seconds from now."""
    clock = asyncio.get_running_loop().time
    gives_up_at = clock() + longest_s

    async def wait(retry_s: float) -> bool:
        await asyncio.sleep(retry_s)
        return clock() < gives_up_at

    return wait
