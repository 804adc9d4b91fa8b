"""How much the process has taken of the memory that it may take.

Three limits count. That of its cgroup, a container or a systemd unit, is for all processes in it: workers, MCP servers
over stdio. That of the process itself (`ulimit -v`, `LimitAS`) is for its address space. The machine's own memory is
for all that runs there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentic_backend.kpi.limits.cgroups import MOUNTED, OWN, cgroups, read_number
from agentic_backend.kpi.limits.limit_use import LimitUse, nearest

try:
    import resource
except ImportError:  # Windows has no such limit.
    resource = None  # type: ignore[assignment]

_PAGES, _MACHINE = Path("/proc/self/statm"), Path("/proc/meminfo")
# What version 1 says where there is no limit is the largest number of pages, in bytes.
_NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True)
class _Files:
    """What the files of a memory cgroup are called, and in its statistics what is cache of files."""

    limit: str
    used: str
    cached: tuple[str, str]


_VERSION_1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file"))
_VERSION_2 = _Files("memory.max", "memory.current", ("active_file", "inactive_file"))


def memory_use(mounted: Path = MOUNTED, own: Path = OWN, machine: Path = _MACHINE) -> LimitUse | None:
    """Of the limit that is nearest, in bytes, without what the system can take back: its cache of files. None if none
    can be read.
    """
    return nearest((*_of_cgroups(mounted, own), *_of_address_space(), *_of_machine(machine)))


def _of_cgroups(mounted: Path, own: Path) -> Iterator[LimitUse]:
    """Of the process's cgroup and of those around it, as far as they have a limit."""
    for version, directory in cgroups("memory", mounted, own):
        if use := _of_cgroup(directory, _VERSION_2 if version == 2 else _VERSION_1):
            yield use


def _of_cgroup(directory: Path, files: _Files) -> LimitUse | None:
    limit = read_number(directory / files.limit)
    if limit is None or not 0 < limit < _NO_LIMIT:
        return None
    used = read_number(directory / files.used)
    if used is None:
        # It is hidden from some containers; then the process knows of itself alone.
        return LimitUse(_pages()[1], limit)
    return LimitUse(max(0, used - _cached(directory / "memory.stat", files.cached)), limit)


def _cached(statistics: Path, names: tuple[str, str]) -> int:
    try:
        lines = [line.split() for line in statistics.read_text().splitlines()]
        return sum(int(value) for name, value in lines if name in names)
    except (OSError, ValueError):
        return 0


def _of_address_space() -> Iterator[LimitUse]:
    if resource is None:
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit > 0:
        yield LimitUse(_pages()[0], limit)


def _of_machine(machine: Path) -> Iterator[LimitUse]:
    try:
        told = dict(line.split(":") for line in machine.read_text().splitlines())
        total, available = (int(told[name].split()[0]) << 10 for name in ("MemTotal", "MemAvailable"))
    except (OSError, ValueError, KeyError):
        return
    yield LimitUse(total - available, total)


def _pages() -> tuple[int, int]:
    """The process's address space and its resident memory, in bytes; 0 where the system does not tell."""
    try:
        size, resident = _PAGES.read_text().split()[:2]
    except (OSError, ValueError):
        return 0, 0
    return int(size) * resource.getpagesize(), int(resident) * resource.getpagesize()
