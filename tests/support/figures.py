"""Plugin: records the figures of campaigns. At full length it writes docs/figures, the source of the docs' tables."""

import json
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

from support.further_cases import LONG

FILES = Path(__file__).parents[2] / "docs" / "figures"
_CAMPAIGNS = ("faults", "hostile")
"""Their folders."""

_NAME = "figure"
_running: list[pytest.Item] = []
"""The running test."""

Figures = dict[str, list[str]]
"""The texts of each test, of all its parameters, by its name in the tables: `faults/test_kills.py::test_…`."""


def figure(text: str) -> None:
    """Record a measurement of the running test, as text for its row of the table."""
    _running[-1].user_properties.append((_NAME, text))
    print(text)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _running.append(item)
    try:
        return (yield)
    finally:
        _running.pop()


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    told = told_in(reporter.stats.get("passed", []) if reporter else [])
    for campaign in _CAMPAIGNS if LONG else ():
        measured = {test: texts for test, texts in told.items() if test.startswith(f"{campaign}/")}
        if measured:
            write(FILES / f"{campaign}.json", measured)


def told_in(reports: Iterable[pytest.TestReport]) -> Figures:
    told: Figures = {}
    for report in reports:
        texts = [str(value) for name, value in report.user_properties if name == _NAME]
        if texts:
            told.setdefault(report.nodeid.removeprefix("tests/").partition("[")[0], []).extend(texts)
    return told


def read(path: Path) -> Figures:
    figures: Figures = json.loads(path.read_text())
    return figures


def write(path: Path, measured: Figures) -> None:
    """Add these figures to the earlier ones of other tests in the file."""
    figures = {**(read(path) if path.is_file() else {}), **measured}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(dict(sorted(figures.items())), indent=2, ensure_ascii=False) + "\n")
