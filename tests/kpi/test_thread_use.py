"""The threads that there are, and their limit, as cgroups of both versions, the user and the machine tell them."""

import subprocess
import sys
from pathlib import Path

import pytest

from agentic_backend.kpi.limits.limit_use import LimitUse
from agentic_backend.kpi.limits.thread_use import thread_use
from tests.kpi.test_memory_use import written


@pytest.mark.parametrize(
    ("own", "files", "use"),
    [
        ("0::/\n", {"pids.max": 40, "pids.current": 10}, (10, 40)),
        ("0::/\n", {"pids.max": "max", "pids.current": 10}, None),
        ("8:pids:/a/b\n", {"pids/a/pids.max": 40, "pids/a/pids.current": 38, "pids/a/b/pids.max": "max"}, (38, 40)),
        ("4:memory:/a\n", {"pids/a/pids.max": 40, "pids/a/pids.current": 38}, None),
    ],
)
def test_the_limit_is_that_of_the_cgroup(
    tmp_path: Path, own: str, files: dict[str, object], use: tuple[int, int] | None
) -> None:
    assert thread_use(*written(tmp_path, own, **files)) == (use and LimitUse(*use))


def test_the_machines_limit_counts_too(tmp_path: Path) -> None:
    (tmp_path / "sys" / "kernel").mkdir(parents=True)
    for name, number in (
        ("sys/kernel/threads-max", 900),
        ("sys/kernel/pid_max", 500),
        ("loadavg", "0.1 0.2 0.3 4/120 7"),
    ):
        (tmp_path / name).write_text(f"{number}\n")
    assert thread_use(tmp_path, tmp_path / "nothing", tmp_path) == LimitUse(120, 500)


def test_the_users_limit_is_for_the_threads_of_all_its_processes() -> None:
    """In a process of its own. Root has no such limit, so it becomes another user, whose processes tell of it."""
    code = """
import ctypes, os, resource, threading
from pathlib import Path
from agentic_backend.kpi.limits.thread_use import thread_use

nowhere, over = Path("/nothing"), threading.Event()
for _ in range(7):
    threading.Thread(target=over.wait, daemon=True).start()
own = len(os.listdir("/proc/self/task"))
others = os.getuid() != 0
_, most = resource.getrlimit(resource.RLIMIT_NPROC)
resource.setrlimit(resource.RLIMIT_NPROC, (10 * own, most))
assert others or thread_use(nowhere, nowhere).limit != 10 * own
if not others:
    os.setuid(61_234)
    ctypes.CDLL(None).prctl(4, 1)
use = thread_use(nowhere, nowhere)
print(use.limit == 10 * own, use.used >= own if others else use.used == own)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert said.stdout.split() == ["True", "True"], said.stderr
