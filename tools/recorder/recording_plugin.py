"""Plugin: tells the recorder whose tests run, and notes what they take; see `function_recorder`."""

import os
import time
from pathlib import Path

import function_recorder
import pytest

# When it is imported: the first files `conftest.py` are read before any hook of a plugin.
function_recorder.come_first()

_file, _ran = "", Path()
_began = (0.0, 0.0)
_called = False
"""Whether a test of the file was called; of a file whose tests are all skipped nothing is known."""


def pytest_configure() -> None:
    function_recorder.work_for(os.environ.get("PYTEST_XDIST_WORKER", "main"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    _turn_to(item.nodeid.partition("::")[0])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    global _called
    _called = True


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    _turn_to("")


def _turn_to(file: str) -> None:
    global _file, _ran, _began, _called
    if file == _file:
        return
    now = (_cpu_s(), time.monotonic())
    if _called:
        with _ran.with_name(f"{_ran.name}.spent").open("a") as spent:
            # Less than before where a process has gone that another one had started and not waited for.
            spent.write(f"{max(0.0, now[0] - _began[0]):.2f} {now[1] - _began[1]:.2f}\n")
    _file, _ran, _began, _called = file, function_recorder.turn_to(file), now, False


def _cpu_s() -> float:
    # Of `tests`, which pytest puts on the path.
    from support.processes import cpu_with_descendants_s

    return cpu_with_descendants_s(os.getpid())
