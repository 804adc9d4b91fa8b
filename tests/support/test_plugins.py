"""Tests the effect of the test plugins on a small run in a separate process."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.figures import read, told_in, write
from support.minutes import by_folder, spent
from support.skips import summary

TESTS = Path(__file__).parents[1]


def run(
    directory: Path, code: str, *plugins: str, named: str = "test_it.py", **environment: str
) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(code)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CI", "TESTS"))}
    options = [option for plugin in plugins for option in ("-p", plugin)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, named],
        cwd=directory,
        env={**inherited, "PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_test_that_leaves_a_thread_fails_and_the_run_ends(tmp_path: Path) -> None:
    code = """
import threading

def test_leaves_one():
    threading.Thread(target=threading.Event().wait, name="left behind").start()

def test_leaves_none():
    thread = threading.Thread(target=int)
    thread.start()
"""
    (tmp_path / "pytest.ini").write_text("[pytest]\nrun_ends_within_s = 2\n")
    done = run(tmp_path, code, "support.lanes", "support.threads")
    assert done.returncode == 1
    assert "the test leaves threads: left behind" in done.stdout and "2 passed, 1 error" in done.stdout
    assert "Timeout" in done.stderr and "in wait" in done.stderr, "what keeps the process alive is shown"


def test_skips_are_told_by_service_and_fail_where_all_must_run(tmp_path: Path) -> None:
    code = """
import pytest

@pytest.mark.parametrize("n", range(3))
def test_needs(n):
    pytest.skip("needs Keycloak: there is no `java`")
"""
    done = run(tmp_path, code, "support.skips")
    assert done.returncode == 0 and "Keycloak: 3 tests, because there is no `java`" in done.stdout
    assert run(tmp_path, code, "support.skips", CI="true").returncode == 1


ONCE = """
import pathlib, pytest

@pytest.mark.parametrize("n", range({number}))
def test_fails_the_first_time(n):
    seen = pathlib.Path(f"seen-{{n}}")
    if not seen.exists():
        seen.touch()
        pytest.fail("too late")

def test_passes():
    pass
"""


@pytest.mark.parametrize("lanes", ["", "-p xdist -n 2"])
def test_where_all_must_pass_a_few_failures_are_looked_at_twice(tmp_path: Path, lanes: str) -> None:
    done = run(tmp_path, ONCE.format(number=3), "support.second_look", CI="true", PYTEST_ADDOPTS=lanes)
    assert done.returncode == 0, done.stdout
    assert "unsteady" in done.stdout and "3 failed, 1 passed" in done.stdout and "3 passed in" in done.stdout
    assert all(f"\ntest_it.py::test_fails_the_first_time[{n}]\n" in done.stdout for n in range(3))


def test_a_second_look_excuses_nothing_else(tmp_path: Path) -> None:
    def status(name: str, code: str, **environment: str) -> int:
        directory = tmp_path / name
        directory.mkdir()
        return run(directory, code, "support.second_look", "support.skips", **environment).returncode

    skips = "\ndef test_is_skipped():\n    pytest.skip('needs Redis: none')\n"
    assert status("developer", ONCE.format(number=1)) == 1, "a developer sees each failure"
    assert status("many", ONCE.format(number=4), CI="true") == 1
    assert status("again", "def test_fails():\n    assert False\n", CI="true") == 1
    assert status("skipped", ONCE.format(number=1) + skips, CI="true") == 1
    assert status("broken", ONCE.format(number=1) + "nothing here", CI="true") == 2


def test_a_skip_that_names_no_service_has_a_line_too() -> None:
    reasons = ["Skipped: needs Redis: none", "Skipped: only here", "Skipped: needs Redis: none"]
    assert summary(reasons) == ["Redis: 2 tests, because none", "something else: 1 tests, because Skipped: only here"]


def test_figures_are_kept_by_test_beside_those_of_others(tmp_path: Path) -> None:
    def report(name: str, *texts: str) -> pytest.TestReport:
        properties: list[tuple[str, object]] = [("figure", text) for text in texts]
        place = (name, 1, name)
        return pytest.TestReport(name, place, {}, "passed", None, "call", user_properties=[*properties, ("x", 1)])

    told = told_in([report("tests/faults/a.py::b[1]", "one"), report("tests/faults/a.py::b[2]", "two"), report("c")])
    assert told == {"faults/a.py::b": ["one", "two"]}
    write(tmp_path / "f.json", {"faults/a.py::b": ["before"], "faults/z.py::y": ["kept"]})
    write(tmp_path / "f.json", told)
    assert read(tmp_path / "f.json") == {"faults/a.py::b": ["one", "two"], "faults/z.py::y": ["kept"]}


def test_a_run_tells_where_its_minutes_went(tmp_path: Path) -> None:
    def report(file: str, duration: float) -> pytest.TestReport:
        return pytest.TestReport(f"{file}::a", (file, 1, "a"), {}, "passed", None, "call", duration=duration)

    files = spent([report("tests/b/c/d.py", 1), report("tests/b/e.py", 2), report("tests/f.py", 4), "other"])
    assert files == {"tests/b/c/d.py": 1, "tests/b/e.py": 2, "tests/f.py": 4}
    assert by_folder(files) == {"tests/b": 3, "tests": 4}


BUSY = """
import subprocess, sys

def test_is_busy():
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.5: pass"], check=True)
"""


@pytest.mark.parametrize("lanes", ["", "-p xdist -n 1"])
def test_a_run_tells_of_the_processors_too(tmp_path: Path, lanes: str) -> None:
    assert "minutes of all lanes" not in run(tmp_path, BUSY, "support.minutes", PYTEST_ADDOPTS=lanes).stdout
    told = run(tmp_path, BUSY, "support.minutes", CI="true", PYTEST_ADDOPTS=lanes).stdout
    assert re.search(r"^ +0\.0\d +0\.0[1-9]  test_it\.py$", told, re.MULTILINE), told


FURTHER = """
import pytest
from support.further_cases import all_but_first

@pytest.mark.parametrize("case", all_but_first("a", "b", "c"))
def test_it(case):
    pass

@pytest.mark.further
def test_more():
    pass
"""


def test_further_cases_run_in_long_runs_and_when_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = further\n")
    assert "1 passed, 3 deselected" in run(tmp_path, FURTHER, "support.further_cases").stdout
    assert "4 passed" in run(tmp_path, FURTHER, "support.further_cases", TESTS="long").stdout
    for named, told in {"test_it[b]": "1 passed", "test_more": "1 passed", "test_it": "3 passed"}.items():
        assert told in run(tmp_path, FURTHER, "support.further_cases", named=f"test_it.py::{named}").stdout, named
