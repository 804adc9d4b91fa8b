"""CPU time: how long work takes, on a machine that others use too."""

import time
from collections.abc import Callable

_TRIES = 3


def cpu_s(work: Callable[[], object]) -> float:
    """The seconds of CPU time that `work` takes its thread."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


def takes_at_most(seconds: float, work: Callable[[], object]) -> bool:
    """Whether `work` takes its thread less CPU time than that in the best of some tries.

    A machine that is suspended counts that time to the thread that runs: the worst of the tries says nothing.
    """
    return any(cpu_s(work) < seconds for _ in range(_TRIES))
