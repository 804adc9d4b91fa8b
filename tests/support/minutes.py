"""Plugin: with CI=true a run ends with the minutes that its lanes spent in each folder, and in the slowest files.

Beside them stand the minutes of processor time: a lane that waits costs the others nothing.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Mapping

import pytest

from support.processes import cpu_with_descendants_s

_FILES = 10
_cpu_s: Counter[str] = Counter()
"""Seconds of processor time by file: in a lane of its own files, in the process that has started the lanes of all."""


class _Meter:
    """What the file whose tests run has used so far, with all processes that this one has started."""

    file = ""
    before_s = 0.0

    def turn_to(self, file: str) -> None:
        if file != self.file:
            now = cpu_with_descendants_s(os.getpid())
            if self.file:
                # Less than before where a process has gone that another one had started and not waited for.
                _cpu_s[self.file] += max(0.0, now - self.before_s)
            self.file, self.before_s = file, now


_meter = _Meter()


def _is_wanted() -> bool:
    return os.environ.get("CI") == "true"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    if _is_wanted():
        _meter.turn_to(_file_of(item.nodeid))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _is_wanted():
        _meter.turn_to("")
        if (told := getattr(session.config, "workeroutput", None)) is not None:
            told["cpu_s"] = dict(_cpu_s)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    _cpu_s.update(getattr(node, "workeroutput", {}).get("cpu_s", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _is_wanted():
        return
    files = spent([report for reports in terminalreporter.stats.values() for report in reports])
    terminalreporter.section("minutes of all lanes, and of processors, by folder and of the slowest files")
    cpu_of_folders = by_folder(_cpu_s)
    for name, seconds in _most_first(by_folder(files)):
        terminalreporter.line(f"{seconds / 60:7.2f} {cpu_of_folders.get(name, 0) / 60:7.2f}  {name}")
    for name, seconds in _most_first(files)[:_FILES]:
        terminalreporter.line(f"{seconds / 60:7.2f} {_cpu_s[name] / 60:7.2f}  {name}")


def spent(reports: list[object]) -> Mapping[str, float]:
    """The seconds of set-up, call and tear-down by file."""
    files: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        if isinstance(report, pytest.TestReport):
            files[_file_of(report.nodeid)] += report.duration
    return files


def by_folder(files: Mapping[str, float]) -> Mapping[str, float]:
    """The same by folder of `tests`."""
    folders: defaultdict[str, float] = defaultdict(float)
    for file, seconds in files.items():
        folders["/".join(file.split("/")[:-1][:2]) or "."] += seconds
    return folders


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _most_first(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda item: item[1], reverse=True)
