"""Runs a plain function of an author's off the event loop."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


async def in_thread(call: Callable[[], _Result]) -> _Result:
    """What `call` returns, in a thread. Raises what it raises; a StopIteration as RuntimeError, as coroutines do."""
    return await asyncio.to_thread(lambda: _returned(call))


def _returned(call: Callable[[], _Result]) -> _Result:
    try:
        return call()
    except StopIteration as error:
        # No future takes it, so whoever waits would wait for ever.
        raise RuntimeError("StopIteration") from error
