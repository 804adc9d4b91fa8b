"""SIGHUP: reloads the configuration, and never ends the process.

Its handler is installed before anything else and stays, so there is no moment at which the signal could kill. What
comes before somebody reloads is counted. Unlike SIG_IGN, child processes don't inherit the handler.
"""

import signal
from collections.abc import Callable
from types import FrameType


class Hangups:
    """Owned by the command; a worker has its parent's, with its count."""

    def __init__(self) -> None:
        self.count = 0
        """The signals so far."""
        self.told: Callable[[], None] | None = None
        """Called at each signal, in the main thread between any two steps of it."""

    def hear(self) -> None:
        """Install the handler. Only in the main thread."""
        signal.signal(signal.SIGHUP, self._note)

    def ignore(self) -> None:
        """Ignore the signal from now on: Python's end would give it back its default, which kills."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.told is not None:
            self.told()
