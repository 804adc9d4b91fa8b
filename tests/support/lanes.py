"""Plugin: runs tests in lanes, one process each (pytest-xdist), which share services and run the slowest folders first.

A test also gets a marker for each service it needs, so that `make quick` can leave it out.
"""

import gc
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest
from services.shared import begin_run, end_run

# Other folders follow these. The tests of the page stand among the first half of all others: browsers need processors,
# while others wait.
_SLOWEST_FIRST = ("gameday", "e2e", "hostile", "faults", "stores", "sessions", "relay", "transports", "auth")


def in_lane() -> bool:
    """Whether this process is a lane, and not the process that started the lanes."""
    return "PYTEST_XDIST_WORKER" in os.environ


def pytest_configure() -> None:
    # A shell's background job ignores it, and so would each process that a test starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not in_lane():
        begin_run()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    if not in_lane():
        end_run()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among the tests: there is none, and each look visits 13,000 of them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for marker in {_NEEDS[name] for name in getattr(item, "fixturenames", []) if name in _NEEDS}:
            item.add_marker(marker)
    repeated = [id for id, times in Counter(item.nodeid for item in items).items() if times > 1]
    if repeated:
        raise pytest.UsageError(f"of several tests with the same id lanes run one: {', '.join(repeated[:5])}")
    if in_lane():
        items.sort(key=lambda item: _rank_of(item.path.relative_to(config.rootpath).parts[1]))
        places = _places(dict.fromkeys(item.path for item in items))
        items.sort(key=lambda item: places[item.path])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Collect a file's garbage at its end, and look at what it left no more: else each look visits ever more."""
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path != item.path:
            gc.collect()
            gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape lone surrogates in a test's output: reports are sent as UTF-8, which can't encode them."""
    report = yield
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report


_NEEDS = {
    **dict.fromkeys(["redis", "own_redis"], "redis"),
    "keycloak": "keycloak",
    **dict.fromkeys(["mongo_java", "ferretdb", "own_ferretdb"], "mongodb"),
    "browser": "chromium",
}
"""The marker of a test that uses this fixture, by fixture."""


def _rank_of(folder: str) -> int:
    return _SLOWEST_FIRST.index(folder) if folder in _SLOWEST_FIRST else len(_SLOWEST_FIRST)


def _places(files: Iterable[Path]) -> dict[Path, float]:
    """Where each file of tests stands among all, from 0 to 1."""
    pages, others = [], []
    for file in files:
        (pages if file.name.startswith("test_page_") else others).append(file)
    among_others = {file: place / len(others) for place, file in enumerate(others)}
    return among_others | {file: place / len(pages) / 2 for place, file in enumerate(pages)}
