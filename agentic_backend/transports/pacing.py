"""Pacer: wakes a writer at once for whatever is new, but for text that follows on text only now and then.

A reader sees no difference between fifty frames a second and five hundred; the server and the network do.
"""

import asyncio

_TEXT_INTERVAL_S = 0.03


class Pacer:
    """Owned by one writer, which awaits `due` and then takes all that is there."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due = asyncio.Event()
        self._next_text_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """Something is there that waits for nothing."""
        self._due.set()

    def wake_for_text(self) -> None:
        """More text is there: due at once after a pause, else when the interval since the last text is over."""
        if self._timer is None and not self._due.is_set():
            self._timer = self._loop.call_at(self._next_text_at, self._text_is_due)

    async def due(self) -> None:
        await self._due.wait()
        self._due.clear()
        self._next_text_at = self._loop.time() + _TEXT_INTERVAL_S
        self.cancel()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _text_is_due(self) -> None:
        self._timer = None
        self._due.set()
