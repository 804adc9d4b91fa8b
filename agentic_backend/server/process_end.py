"""The end of the process: handles its signals, and ends the process in time even if code still runs.

The first SIGTERM or SIGINT stops the server, which lets exchanges end; the second cuts that short; others have no
effect. A terminal's Ctrl-C and systemd signal both a worker and its parent, and the parent forwards signals as SIGUSR1.
Direct and forwarded signals are counted separately, so that a signal that arrives both ways counts once.
SIGHUP ends nothing: see hangups. A server that another process has started for itself ends with its standard input.
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

from agentic_backend.relay.drain import LONGEST_S, Drain

log = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
PASSED_ON = signal.SIGUSR1
"""The signal that a parent sends to its workers for each stop signal it receives."""

# After the grace period the process ends if the drain gets no turn for this long: two seconds less the exit time.
_NO_TURN_S, _TICK_S = 1.6, 0.05


# The end of a server with its standard input: for one that another process has started for itself.

_STDIN = 0


def end_with_input() -> None:
    """Send this process SIGTERM once its standard input ends, as it does when the process at its other end does."""
    threading.Thread(target=_wait_and_end, name="input-end", daemon=True).start()


def _wait_and_end() -> None:
    while os.read(_STDIN, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


class StopOrder:
    """Counts the signals that tell the process to stop."""

    def __init__(self, drain: Drain) -> None:
        self.stop = Event()
        """Set by the first signal."""
        self._drain = drain
        """Cut short by the second signal."""
        self._told: Counter[bool] = Counter()
        """The number of signals from the parent (True) and from elsewhere (False)."""

    def listen(self, loop: AbstractEventLoop) -> None:
        """Install the signal handlers, which tell `loop`. Only in the main thread.

        Not with `add_signal_handler`: when two signals arrive together, uvloop may call a handler twice for one.
        """

        def handle(number: int, frame: FrameType | None) -> None:
            # The loop is closed once the server has ended.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self.tell, number == PASSED_ON)

        for number in (*STOP_SIGNALS, PASSED_ON):
            signal.signal(number, handle)
            # As asyncio does: system calls of other threads go on.
            signal.siginterrupt(number, False)

    def tell(self, by_parent: bool) -> None:
        self._told[by_parent] += 1
        if max(self._told.values()) == 1:
            self.stop.set()
        elif not self._drain.cut_short.is_set():
            log.info("grace period cut short")
            self._drain.cut_short.set()


def end_in_time(grace_s: float, drain: Drain) -> None:
    """End the process after its grace period, which may be cut short, once the drain gets no more turns.

    A thread does this, because the event loop may be blocked.
    """
    threading.Thread(target=_watch, args=(time.monotonic() + grace_s, drain), daemon=True).start()


def _watch(grace_until: float, drain: Drain) -> None:
    turns, waited_s, now, starved_s = drain.turns, 0.0, time.monotonic(), _starved_s()
    # The end takes at most LONGEST_S after the grace period, even if the drain still gets turns.
    while waited_s < _NO_TURN_S and now < grace_until + LONGEST_S:
        time.sleep(_TICK_S)
        before, now = now, time.monotonic()
        starved_before, starved_s = starved_s, _starved_s()
        is_over = now >= grace_until or drain.cut_short.is_set()
        if not is_over or drain.turns != turns:
            # Exchanges have time left, or the event loop runs and the drain itself gives up: restart the wait.
            turns, waited_s = drain.turns, 0.0
        else:
            # Count only the time that the process could run: it may have been suspended, or have had no CPU.
            waited_s += max(0.0, min(now - before, 2 * _TICK_S) - (starved_s - starved_before))
    leave_now()


def _starved_s() -> float:
    """The seconds that the event loop's thread has waited for a CPU so far; 0 if the system doesn't report it."""
    try:
        return int(Path(f"/proc/self/task/{os.getpid()}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def leave_now(status: int = 0) -> None:
    """End the process at once, without exit handlers and without waiting for threads."""
    # Write the log and printed text first; the latter fails if the terminal is closed.
    for handler in logging.getLogger().handlers:
        handler.flush()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
