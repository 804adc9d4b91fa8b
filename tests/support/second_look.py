"""Plugin: with CI=true a few tests that failed run a second time, alone, to tell a slow machine from a fault.

The tests drive real servers and browsers, beside each other; a machine that stands still can make one late. A test that
passes the second time is named at the end of the run as unsteady, with its first failure above. If one fails again, or
more than a few have failed, the run has failed.
"""

import os
import subprocess
import sys

import pytest

MOST = 3
_LONGEST_S = 900


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Before `support.skips`, which fails a run without failures where a test was skipped."""
    if os.environ.get("CI") != "true" or session.exitstatus != pytest.ExitCode.TESTS_FAILED:
        return
    failed = _failed(session.config)
    if 1 <= len(failed) <= MOST and _pass_alone(session.config, failed):
        session.exitstatus = pytest.ExitCode.OK
        session.config.stash[_UNSTEADY] = failed


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if unsteady := config.stash.get(_UNSTEADY, None):
        terminalreporter.section("unsteady: failed, and passed the second time, alone")
        for test in unsteady:
            terminalreporter.line(test)


_UNSTEADY = pytest.StashKey[list[str]]()


def _failed(config: pytest.Config) -> list[str]:
    """The ids of the tests of this run that failed; none in a lane, which hears of its own only."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or "PYTEST_XDIST_WORKER" in os.environ:
        return []
    return sorted({report.nodeid for outcome in ("failed", "error") for report in reporter.stats.get(outcome, [])})


def _pass_alone(config: pytest.Config, tests: list[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-p", "no:support.second_look", "-p", "no:cacheprovider", *tests]
    print(f"\n\n{len(tests)} tests failed, and run a second time:", flush=True)
    try:
        return subprocess.run(command, cwd=config.rootpath, timeout=_LONGEST_S, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False
