"""How many cores this process may use, and so how many workers `auto` is."""

import math
import os
from contextlib import suppress
from pathlib import Path

MOST_WORKERS = 64
_CGROUP = Path("/sys/fs/cgroup")


def as_workers(value: object) -> object:
    """`auto` as a number; everything else as it is."""
    return min(usable_cores(), MOST_WORKERS) if value == "auto" else value


def usable_cores(cgroup: Path = _CGROUP) -> int:
    """The cores that the process may run on, or fewer by a container's limit of CPU time, which is rounded up."""
    # macOS doesn't tell.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = _limit(cgroup)
    return cores if limit is None else max(1, min(cores, math.ceil(limit)))


def _limit(cgroup: Path) -> float | None:
    """The CPU time per time of the container, as its own cgroup of either version says; None without a limit."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (cgroup / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota_us = int((cgroup / "cpu" / "cpu.cfs_quota_us").read_text())
        return None if quota_us < 0 else quota_us / int((cgroup / "cpu" / "cpu.cfs_period_us").read_text())
    return None
