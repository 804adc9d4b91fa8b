"""The memory limit, as cgroups of both versions tell it."""

from pathlib import Path

import pytest

from agentic_backend.kpi.memory_limit import memory_limit

NONE_IN_VERSION_1 = 9_223_372_036_854_771_712


def written(directory: Path, own: str, **files: object) -> tuple[Path, Path]:
    (directory / "own").write_text(own)
    for name, content in files.items():
        file = directory / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")
    return directory / "cgroup", directory / "own"


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/\n", {"memory.max": 512}, 512),
        ("0::/\n", {"memory.max": "max"}, None),
        ("0::/a.slice/b.service\n", {"a.slice/memory.max": 300, "a.slice/b.service/memory.max": "max"}, 300),
        ("0::/a.slice/b.service\n", {"a.slice/memory.max": 300, "a.slice/b.service/memory.max": 200}, 200),
        ("9:cpu:/\n4:memory:/docker/1\n", {"memory/memory.limit_in_bytes": 700}, 700),
        ("4:memory:/docker/1\n", {"memory/docker/1/memory.limit_in_bytes": NONE_IN_VERSION_1}, None),
        ("0::/gone\n", {}, None),
    ],
)
def test_the_limit_is_the_least_of_the_cgroups_around(
    tmp_path: Path, own: str, files: dict[str, object], limit: int | None
) -> None:
    assert memory_limit(*written(tmp_path, own, **files)) == limit


def test_without_cgroups_there_is_none(tmp_path: Path) -> None:
    assert memory_limit(tmp_path, tmp_path / "nothing") is None
