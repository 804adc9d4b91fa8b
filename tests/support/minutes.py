"""Plugin: with CI=true a run ends with the minutes that its lanes spent in each folder, and in the slowest files."""

import os
from collections import defaultdict
from collections.abc import Mapping

import pytest

_FILES = 10


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if os.environ.get("CI") != "true":
        return
    folders, files = spent([report for reports in terminalreporter.stats.values() for report in reports])
    terminalreporter.section("minutes of all lanes by folder, and of the slowest files")
    for name, seconds in _most_first(folders) + _most_first(files)[:_FILES]:
        terminalreporter.line(f"{seconds / 60:7.1f}  {name}")


def spent(reports: list[object]) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """The seconds of set-up, call and tear-down: by folder of `tests`, and by file."""
    folders: defaultdict[str, float] = defaultdict(float)
    files: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        if isinstance(report, pytest.TestReport):
            file = report.nodeid.partition("::")[0]
            files[file] += report.duration
            folders["/".join(file.split("/")[:-1][:2]) or "."] += report.duration
    return folders, files


def _most_first(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda item: item[1], reverse=True)
