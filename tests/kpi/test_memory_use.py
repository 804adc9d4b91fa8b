"""The memory that is used, and its limit, as cgroups of both versions tell them, and the process itself."""

import subprocess
import sys
from pathlib import Path

import pytest

from agentic_backend.kpi.limits.limit_use import LimitUse
from agentic_backend.kpi.limits.memory_use import memory_use

NONE_IN_VERSION_1 = 9_223_372_036_854_771_712


def written(directory: Path, own: str, **files: object) -> tuple[Path, Path, Path]:
    """The mounted cgroups, the file of the own ones, and a machine that tells nothing."""
    (directory / "own").write_text(own)
    for name, content in files.items():
        file = directory / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")
    return directory / "cgroup", directory / "own", directory / "nothing"


CACHED_IN_VERSION_1 = "cache 70\ntotal_cache 70\ntotal_active_file 30\ntotal_inactive_file 40"
CACHED_IN_VERSION_2 = "anon 100\nactive_file 30\ninactive_file 40"


@pytest.mark.parametrize(
    ("own", "files", "use"),
    [
        ("0::/\n", {"memory.max": 512, "memory.current": 128}, (128, 512)),
        ("0::/\n", {"memory.max": 512, "memory.current": 128, "memory.stat": CACHED_IN_VERSION_2}, (58, 512)),
        ("0::/\n", {"memory.max": "max", "memory.current": 128}, None),
        (
            "0::/a.slice/b.service\n",
            {
                "a.slice/memory.max": 300,
                "a.slice/memory.current": 100,
                "a.slice/b.service/memory.max": "max",
                "a.slice/b.service/memory.current": 50,
            },
            (100, 300),
        ),
        (
            "9:cpu:/\n4:memory:/docker/1\n",
            {
                "memory/memory.limit_in_bytes": 700,
                "memory/memory.usage_in_bytes": 170,
                "memory/memory.stat": CACHED_IN_VERSION_1,
            },
            (100, 700),
        ),
        ("4:memory:/docker/1\n", {"memory/docker/1/memory.limit_in_bytes": NONE_IN_VERSION_1}, None),
        ("0::/gone\n", {}, None),
    ],
)
def test_what_is_used_is_that_of_the_cgroup_without_its_cache(
    tmp_path: Path, own: str, files: dict[str, object], use: tuple[int, int] | None
) -> None:
    assert memory_use(*written(tmp_path, own, **files)) == (use and LimitUse(*use))


@pytest.mark.parametrize(("outer", "inner", "used"), [(290, 20, 290), (210, 190, 190)])
def test_of_several_limits_the_nearest_counts(tmp_path: Path, outer: int, inner: int, used: int) -> None:
    files = {
        "a.slice/memory.max": 300,
        "a.slice/memory.current": outer,
        "a.slice/b.service/memory.max": 200,
        "a.slice/b.service/memory.current": inner,
    }
    use = memory_use(*written(tmp_path, "0::/a.slice/b.service\n", **files))
    assert use is not None
    assert use.used == used


def test_a_cgroup_that_hides_its_use_is_compared_with_the_process(tmp_path: Path) -> None:
    use = memory_use(*written(tmp_path, "0::/\n", **{"memory.max": 1 << 50}))
    assert use is not None
    assert use.limit == 1 << 50
    assert 1 << 20 < use.used < 1 << 40


def test_the_machines_memory_is_a_limit_too(tmp_path: Path) -> None:
    assert memory_use(tmp_path, tmp_path / "nothing", tmp_path / "nothing") is None
    machine = tmp_path / "meminfo"
    machine.write_text(
        "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    250 kB\nHugePages_Total:  0\n"
    )
    assert memory_use(tmp_path, tmp_path / "nothing", machine) == LimitUse(750 << 10, 1000 << 10)


def test_a_limit_of_the_address_space_counts() -> None:
    """In a process of its own, whose limit is twice what it has."""
    code = (
        "import resource\n"
        "from pathlib import Path\n"
        "from agentic_backend.kpi.limits.memory_use import memory_use\n"
        "size = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 * size, resource.RLIM_INFINITY))\n"
        "use = memory_use(own=Path('/nothing'), machine=Path('/nothing'))\n"
        "print(use.limit == 2 * size, 0.4 < use.ratio < 0.6)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout.split() == ["True", "True"]
