"""A run of one test begins at once: what takes long to import is imported by who needs it."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
SLOW_TO_IMPORT = {"langgraph", "langchain_core", "langsmith", "schemathesis", "starlette", "playwright"}
WHAT_A_RUN_IMPORTS = "import sys, pytest; pytest.main(sys.argv[1:]); print(*sys.modules, sep='\\n')"


def test_a_run_of_a_test_that_needs_no_server_imports_none(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(TESTS.parent),
        "-c",
        str(TESTS.parent / "pyproject.toml"),
    ]
    options += ["--confcutdir", str(TESTS), "-p", "conftest", str(tmp_path / "test_nothing.py")]
    run = subprocess.run(
        [sys.executable, "-c", WHAT_A_RUN_IMPORTS, *options],
        cwd=TESTS,
        # As at a prompt: a lane would sort its tests.
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "1 passed" in run.stdout, run.stdout + run.stderr
    assert not SLOW_TO_IMPORT & set(run.stdout.split())
