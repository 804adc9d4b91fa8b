"""The cgroups that the process is in, of either version, and what their files say."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

MOUNTED, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def cgroups(controller: str, mounted: Path = MOUNTED, own: Path = OWN) -> Iterator[tuple[int, Path]]:
    """The version and the directory of the process's cgroup with this controller, and of those around it."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        # `0::/path` in version 2; `9:memory:/path` in version 1.
        number, controllers, path = line.split(":", 2)
        if number == "0":
            yield from ((2, mounted / place) for place in _upwards(path))
        elif controller in controllers.split(","):
            yield from ((1, mounted / controller / place) for place in _upwards(path))


def read_number(file: Path) -> int | None:
    """None if it is not there, not readable, or "max"."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _upwards(path: str) -> Iterator[PurePosixPath]:
    """The cgroup and those around it. A container may see only the root, which then is its own."""
    place = PurePosixPath(path.lstrip("/"))
    yield from (place, *place.parents)
