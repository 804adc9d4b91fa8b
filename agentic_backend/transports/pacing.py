"""Pacer: wakes a writer at once for whatever is new, but for text that follows on text only now and then.

A reader sees no difference between twenty frames a second and five hundred; the server and the network do. The more
exchanges run, the longer text gathers, so that frames take a bounded share of the process.
"""

import asyncio
from collections.abc import Callable

_FRAMES_PER_S = 400
_LONGEST_S = 0.25


def text_interval_s(least_s: float, running: int) -> float:
    """How long text gathers, in seconds, while `running` exchanges share the process."""
    return min(max(least_s, running / _FRAMES_PER_S), max(least_s, _LONGEST_S))


class Pacer:
    """Owned by one writer, which awaits `due` and then takes all that is there."""

    def __init__(self, interval_s: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._loop = asyncio.get_running_loop()
        self._due = asyncio.Event()
        self._text_waits = False
        self._next_text_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """Something is there that waits for nothing, and neither does the first text that follows it."""
        self._next_text_at = 0.0
        self._due.set()

    def wake_for_text(self) -> None:
        """More text is there: due at once after a pause, else when the interval since the last text is over."""
        self._text_waits = True
        if self._timer is None and not self._due.is_set():
            self._timer = self._loop.call_at(self._next_text_at, self._text_is_due)

    @property
    def is_due(self) -> bool:
        """Whether something has come since `due` was over."""
        return self._due.is_set() or self._text_waits

    async def due(self) -> None:
        await self._due.wait()
        self._due.clear()
        self.cancel()
        if self._text_waits:
            self._text_waits = False
            self._next_text_at = self._loop.time() + self._interval_s()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _text_is_due(self) -> None:
        self._timer = None
        self._due.set()
