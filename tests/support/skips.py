"""Plugin: reports skipped tests, one line per missing service; with CI=true they fail the run."""

import os
import re
from collections import Counter

import pytest

_NEEDS = re.compile(r"(?:Skipped: )?needs ([^:]+): (.*)", re.DOTALL)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("CI") == "true" and _reasons(session.config) and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = summary(_reasons(config))
    if lines:
        terminalreporter.section("skipped for want of")
        for line in lines:
            terminalreporter.line(line)


def summary(reasons: list[str]) -> list[str]:
    """A line for each service with the number of tests and the reason; other reasons get their own lines."""
    counted = Counter(
        (found[1], found[2]) if (found := _NEEDS.fullmatch(reason)) else ("something else", reason)
        for reason in reasons
    )
    return [f"{service}: {number} tests, because {why}" for (service, why), number in sorted(counted.items())]


def _reasons(config: pytest.Config) -> list[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    return [report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr) for report in skipped]
