"""The memory that the process may take, as its cgroup says: a container's limit, or a systemd unit's."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_MOUNTED, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
# What version 1 says where there is no limit is the largest number of pages, in bytes.
_NO_LIMIT = 1 << 60


def memory_limit(mounted: Path = _MOUNTED, own: Path = _OWN) -> int | None:
    """In bytes; the least of the process's cgroup and those around it. None if no limit is set, or none can be read."""
    limits = [limit for file in _files(mounted, own) if (limit := _read(file)) is not None]
    return min(limits, default=None)


def _files(mounted: Path, own: Path) -> Iterator[Path]:
    """The files that may hold a limit, of version 2 and of version 1."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        # `0::/path` in version 2; `9:memory:/path` in version 1.
        number, controllers, path = line.split(":", 2)
        if number == "0":
            yield from (mounted / place / "memory.max" for place in _upwards(path))
        elif "memory" in controllers.split(","):
            yield from (mounted / "memory" / place / "memory.limit_in_bytes" for place in _upwards(path))


def _upwards(path: str) -> Iterator[PurePosixPath]:
    """The cgroup and those around it. A container may see only the root, which then is its own."""
    place = PurePosixPath(path.lstrip("/"))
    yield from (place, *place.parents)


def _read(file: Path) -> int | None:
    try:
        limit = int(file.read_text())
    except (OSError, ValueError):
        # Not there, not readable, or "max".
        return None
    return limit if limit < _NO_LIMIT else None
