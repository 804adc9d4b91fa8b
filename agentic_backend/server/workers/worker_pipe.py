"""WorkerPipe: on it a worker tells its parent that it is ready, at first and after each reload, and that it is alive.

Each is a byte; the first says that it is ready.
"""

import contextlib
import os

READY, _ALIVE = b"r", b"!"


class WorkerPipe:
    """A Supervisor, in the worker; the parent reads the other end."""

    def __init__(self, end: int, silent_at_most_s: float | None) -> None:
        # Written without waiting: a parent that does not read has its own troubles.
        os.set_blocking(end, False)
        self._end = end
        self._silent_at_most_s = silent_at_most_s
        self._is_ready = False

    @property
    def silent_at_most_s(self) -> float | None:
        return self._silent_at_most_s

    def ready(self) -> None:
        self._is_ready = True
        self._say(READY)

    def reloading(self) -> None:
        """The parent, which has passed the signal on, has said so."""

    def stopping(self) -> None:
        """The parent sees it end."""

    def alive(self) -> None:
        if self._is_ready:
            self._say(_ALIVE)

    def _say(self, what: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._end, what)
