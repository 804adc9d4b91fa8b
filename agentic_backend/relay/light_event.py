"""LightEvent: asyncio.Event for what there are thousands of, such as idle sockets.

asyncio.Event has a deque, which takes 0.7 KiB also while nobody waits.
"""

import asyncio


class LightEvent:
    """Has the methods of asyncio.Event, which do the same."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[asyncio.Future[None]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Let all go on who wait, also if `clear` is called before they do."""
        self._is_set = True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def clear(self) -> None:
        self._is_set = False

    async def wait(self) -> None:
        """Return when the event is set. The caller bounds the wait."""
        if self._is_set:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        finally:
            self._waiting.remove(waiter)
