"""CPU time: how long work takes, on a machine that others use too."""

import time
from collections.abc import Callable

_TRIES = 3


def takes_at_most(seconds: float, work: Callable[[], object]) -> bool:
    """Whether `work` takes its thread so many seconds of CPU time in the best of some tries.

    A machine that is suspended counts that time to the thread that runs: the worst of the tries says nothing.
    """
    for _ in range(_TRIES):
        began = time.thread_time()
        work()
        if time.thread_time() - began < seconds:
            return True
    return False
