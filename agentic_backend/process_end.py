"""The end of the process: what its signals mean, and that it ends whatever still runs.

The first SIGTERM or SIGINT stops the server, which lets exchanges end; the second cuts that short; more change nothing.
A terminal's Ctrl-C and systemd reach a worker and its parent, which passes on what it is told by a signal of its own:
each way is counted for itself, so that one signal that comes both ways is one. SIGHUP, sent where a terminal closes, is
ignored.
"""

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from asyncio import AbstractEventLoop, Event
from collections import Counter
from pathlib import Path
from types import FrameType

from agentic_backend.sessions.departure import LONGEST_S, Departure

log = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
PASSED_ON = signal.SIGUSR1
"""What a parent sends its workers for each of its own stop signals."""

# The process is gone two seconds after its grace period unless something still moves; the rest is for the exit itself.
_NOTHING_MOVES_S, _TICK_S = 1.6, 0.05


class StopOrder:
    """What the process was told: `stop` is set by the first signal, the departure is cut short by the second."""

    def __init__(self, departure: Departure) -> None:
        self.stop = Event()
        self._departure = departure
        self._told: Counter[bool] = Counter()

    def listen(self, loop: AbstractEventLoop) -> None:
        """Take over the process's signals."""
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self.tell, False)
        loop.add_signal_handler(PASSED_ON, self.tell, True)
        loop.add_signal_handler(signal.SIGHUP, _note_hangup)

    def tell(self, by_parent: bool) -> None:
        self._told[by_parent] += 1
        if max(self._told.values()) == 1:
            self.stop.set()
        elif not self._departure.cut_short.is_set():
            log.info("cut short")
            self._departure.cut_short.set()


def outlive_terminal() -> None:
    """Until a server listens to its signals: a hangup ends nothing. Programs that are started die of it as usual."""
    signal.signal(signal.SIGHUP, _ignore)


def _ignore(number: int, frame: FrameType | None) -> None:
    pass


def _note_hangup() -> None:
    log.info("hangup ignored")


def end_in_time(grace_s: float, departure: Departure) -> None:
    """End the process after its grace period, or what is left of it, as soon as nothing moves any more.

    From a thread, for the event loop itself may be blocked.
    """
    threading.Thread(target=_watch, args=(time.monotonic() + grace_s, departure), daemon=True).start()


def _watch(grace_until: float, departure: Departure) -> None:
    steps, waited_s, now, starved_s = departure.steps, 0.0, time.monotonic(), _starved_s()
    while waited_s < _NOTHING_MOVES_S and now < grace_until + LONGEST_S:
        time.sleep(_TICK_S)
        before, now = now, time.monotonic()
        starved_before, starved_s = starved_s, _starved_s()
        is_over = now >= grace_until or departure.cut_short.is_set()
        if not is_over or departure.steps != steps:
            steps, waited_s = departure.steps, 0.0
        else:
            # A process that is stopped, or gets no processor, has not had all the time that has passed.
            waited_s += max(0.0, min(now - before, 2 * _TICK_S) - (starved_s - starved_before))
    leave_now()


def _starved_s() -> float:
    """How long the event loop's thread has waited for a processor so far, where the system tells."""
    try:
        return int(Path(f"/proc/self/task/{os.getpid()}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def leave_now() -> None:
    # The terminal may be gone.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)
