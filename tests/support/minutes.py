"""Plugin: with CI=true a run ends with the minutes that its lanes spent in each folder, and in the slowest files."""

import os
from collections import Counter

import pytest

FILES = 10


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if os.environ.get("CI") != "true":
        return
    folders, files = spent([report for reports in terminalreporter.stats.values() for report in reports])
    terminalreporter.section("minutes of all lanes by folder, and of the slowest files")
    for name, seconds in folders.most_common() + files.most_common(FILES):
        terminalreporter.line(f"{seconds / 60:7.1f}  {name}")


def spent(reports: list[object]) -> tuple[Counter[str], Counter[str]]:
    """The seconds of set-up, call and tear-down: by folder of `tests`, and by file."""
    folders: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for report in reports:
        if isinstance(report, pytest.TestReport):
            file = report.nodeid.partition("::")[0]
            # Counter counts numbers of any kind; its types say `int`.
            files[file] += report.duration  # type: ignore[assignment]
            folders["/".join(file.split("/")[:-1][:2]) or "."] += report.duration  # type: ignore[assignment]
    return folders, files
