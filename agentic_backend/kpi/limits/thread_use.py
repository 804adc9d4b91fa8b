"""How many threads there are of those that there may be; beyond the limit none can be started.

Three limits count: of the cgroup (a container's, a unit's `TasksMax`), of the user (`ulimit -u`, which root doesn't
have), and of the machine.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from agentic_backend.kpi.limits.cgroups import MOUNTED, OWN, cgroups, read_number
from agentic_backend.kpi.limits.limit_use import LimitUse, nearest

try:
    import resource
except ImportError:  # Windows has no such limit.
    resource = None  # type: ignore[assignment]

_PROCESSES = Path("/proc")
# The threads of a process among the fields that follow its name in parentheses, see proc_pid_stat(5).
_THREADS = 17


def thread_use(mounted: Path = MOUNTED, own: Path = OWN, processes: Path = _PROCESSES) -> LimitUse | None:
    """Of the limit that is nearest. None if none can be read."""
    return nearest((*_of_cgroups(mounted, own), *_of_user(processes), *_of_machine(processes)))


def _of_cgroups(mounted: Path, own: Path) -> Iterator[LimitUse]:
    for _, directory in cgroups("pids", mounted, own):
        limit, used = read_number(directory / "pids.max"), read_number(directory / "pids.current")
        if limit and used is not None:
            yield LimitUse(used, limit)


def _of_user(processes: Path) -> Iterator[LimitUse]:
    if resource is None or os.geteuid() == 0:
        return
    limit, there = resource.getrlimit(resource.RLIMIT_NPROC)[0], _on_machine(processes)
    # The user's are some of the machine's: while these are few, nobody has to look at each process.
    if limit != resource.RLIM_INFINITY and limit > 0 and (there is None or there > limit / 2):
        yield LimitUse(sum(_threads_of(process) for process in processes.glob("[0-9]*")), limit)


def _threads_of(process: Path) -> int:
    """0 if it is another user's, or has ended."""
    try:
        if process.stat().st_uid != os.geteuid():
            return 0
        return int((process / "stat").read_text().rpartition(")")[2].split()[_THREADS])
    except (OSError, ValueError, IndexError):
        return 0


def _of_machine(processes: Path) -> Iterator[LimitUse]:
    kernel = processes / "sys" / "kernel"
    limits = [read_number(kernel / name) for name in ("threads-max", "pid_max")]
    used, known = _on_machine(processes), [limit for limit in limits if limit]
    if used is not None and known:
        yield LimitUse(used, min(known))


def _on_machine(processes: Path) -> int | None:
    try:
        # The averages of its load, then how many threads run and how many there are.
        return int((processes / "loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return None
