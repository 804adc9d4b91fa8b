"""Pacer: wakes a feed at once for events, but for further text only at intervals.

A person sees no difference between twenty frames a second and five hundred, but the frames load the server and the
network. The more exchanges run, the longer text gathers, so that frames take a bounded share of the process.
"""

import asyncio
from collections.abc import Callable

from agentic_backend.relay.light_event import LightEvent

_FRAMES_PER_S = 400
_LONGEST_S = 0.25


def text_interval_s(least_s: float, running: int) -> float:
    """How long text gathers, in seconds, with `running` exchanges in the process."""
    return min(max(least_s, running / _FRAMES_PER_S), max(least_s, _LONGEST_S))


class Pacer:
    """Owned by one feed, which awaits `due` and then takes everything new."""

    __slots__ = ("_due", "_interval_s", "_loop", "_next_text_at", "_text_waits", "_timer")

    def __init__(self, interval_s: Callable[[], float]) -> None:
        """`interval_s` returns how long text gathers, in seconds."""
        self._interval_s = interval_s
        self._loop = asyncio.get_running_loop()
        self._due = LightEvent()
        """Set when the feed's next round is due."""
        self._text_waits = False
        """Whether there is text that the feed has not taken."""
        self._next_text_at = 0.0
        """When text alone may wake the feed again, in the event loop's time."""
        self._timer: asyncio.TimerHandle | None = None
        """Wakes the feed at `_next_text_at`, while text waits."""

    def wake(self) -> None:
        """Wake the feed at once. The first text after it need not wait either."""
        self._next_text_at = 0.0
        self._due.set()

    def wake_for_text(self) -> None:
        """Wake the feed for new text: at once after a pause, else when the interval since the last text is over."""
        self._text_waits = True
        if self._timer is None and not self._due.is_set():
            self._timer = self._loop.call_at(self._next_text_at, self._text_is_due)

    @property
    def is_due(self) -> bool:
        """Whether something new has come since `due` returned."""
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
