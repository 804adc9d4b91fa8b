"""Stalls of the whole machine, which a hypervisor may suspend: no code of a test is to blame for them."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_EVERY_S = 0.02


@contextmanager
def stall_watched() -> Iterator[Callable[[], float]]:
    """Yields what gives the longest time so far, in seconds, in which not even a thread that only sleeps has run."""
    over, longest = threading.Event(), 0.0

    def watch() -> None:
        nonlocal longest
        before = time.monotonic()
        while not over.wait(_EVERY_S):
            now = time.monotonic()
            longest, before = max(longest, now - before - _EVERY_S), now

    thread = threading.Thread(target=watch, name="stalls")
    thread.start()
    try:
        yield lambda: longest
    finally:
        over.set()
        thread.join()
