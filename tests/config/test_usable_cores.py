"""What `auto` is as a number of workers."""

import os
from pathlib import Path

import pytest

from agentic_backend.config.loading import load_settings
from agentic_backend.config.usable_cores import usable_cores

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("told", "limit"), [("max 100000", CORES), ("100000 100000", 1), ("50000 100000", 1), ("x", CORES)]
)
def test_a_container_may_use_fewer_cores_than_there_are(tmp_path: Path, told: str, limit: int) -> None:
    (tmp_path / "cpu.max").write_text(f"{told}\n")
    assert usable_cores(tmp_path) == limit


@pytest.mark.parametrize(("quota_us", "limit"), [(-1, CORES), (80_000, 1), (10_000_000, CORES)])
def test_an_older_cgroup_says_it_in_two_files(tmp_path: Path, quota_us: int, limit: int) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(str(quota_us))
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert usable_cores(tmp_path) == limit


def test_without_a_limit_it_is_all_that_the_process_may_run_on(tmp_path: Path) -> None:
    assert usable_cores(tmp_path) == CORES


def test_the_settings_have_it_as_a_number() -> None:
    assert load_settings(None, {"server.workers": "auto"}).server.workers == usable_cores()
    assert load_settings(None, {"server.workers": "3"}).server.workers == 3
