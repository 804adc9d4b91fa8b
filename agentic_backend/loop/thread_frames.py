"""What the threads of this process run now."""

import gc
import sys
from threading import Lock
from types import FrameType

_asking = Lock()


def thread_frames() -> dict[int, FrameType]:
    """The frame of each thread that runs Python, by the thread's ident. From any thread.

    Garbage is not collected meanwhile. Before Python 3.11.9 a collection within `sys._current_frames` can wait for the
    interpreter while it holds a lock that a thread waits for which has it and starts another one: then all threads of
    the process stand still for good (https://github.com/python/cpython/issues/106883).
    """
    with _asking:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if collects:
                gc.enable()
