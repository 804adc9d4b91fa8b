"""`tools/tests_of.py`: what it has recorded of a small project, and the map of this one."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

CHECKOUT = Path(__file__).parents[1]
TOOL = CHECKOUT / "tools" / "tests_of.py"

PROJECT = {
    "pytest.ini": "[pytest]\n",
    "agentic_backend/__init__.py": "",
    # Run by all.
    "agentic_backend/common.py": "def add(a, b):\n    return a + b\n\n\ndef rare():\n    return 1\n",
    # Run when it is imported.
    "agentic_backend/early.py": "def squared(n):\n    return n * n\n\n\nLIMIT = squared(3)\n",
    # Run by a process that is killed.
    "agentic_backend/far.py": "class Far:\n    def go(self):\n        'Go.'\n        print('gone', flush=True)\n",
    "tests/test_far.py": """
import subprocess, sys
CODE = "import time; from agentic_backend.far import Far; Far().go(); time.sleep(60)"

def test_it():
    with subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE, env={}) as process:
        assert process.stdout.readline() == b"gone\\n"
        process.kill()
""",
    "tests/test_rare.py": """
from agentic_backend import common, early

def test_it():
    assert common.rare() == 1 and early.LIMIT == 9
""",
    **{
        f"tests/test_{number}.py": """
from agentic_backend.common import add
import agentic_backend.early

def test_it():
    assert add(1, 2) == 3
"""
        for number in range(9)
    },
}


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("tests_of", TOOL)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "tests_of", tool)
    spec.loader.exec_module(tool)
    return tool


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in PROJECT.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "tools").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT / "tests"))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    return tmp_path


def test_a_recorded_project(tool: ModuleType, project: Path) -> None:
    assert tool.record(project, ["-q", "-p", "no:cacheprovider"], None) == 0
    assert tool.select(project, ["agentic_backend/far.py"]) == ["tests/test_far.py"]
    common = tool.select(project, ["agentic_backend/common.py"])
    assert len(common) == 1 + tool.COVERS and "tests/test_rare.py" in common
    recorded = json.loads((project / tool.MAP).read_text())
    assert recorded["tests"].keys() == {"agentic_backend/common.py", "agentic_backend/far.py"}
    assert len(recorded["seconds"]) == 11

    # What the map doesn't know is found by its name: a file without functions that run, a new file, a new test.
    assert len(tool.select(project, ["agentic_backend/early.py"])) == 10
    (project / "tests" / "test_new.py").write_text("import agentic_backend.far, agentic_backend.late\n")
    assert tool.select(project, ["agentic_backend/late.py"]) == ["tests/test_new.py"]
    assert tool.select(project, ["agentic_backend/far.py"]) == ["tests/test_new.py", "tests/test_far.py"]

    # A part that is recorded anew changes nothing of the others; what has gone is forgotten.
    (project / "tests" / "test_far.py").unlink()
    (project / "tests" / "test_rare.py").write_text("def test_it():\n    pass\n")
    assert tool.record(project, ["-q", "-p", "no:cacheprovider", "tests/test_rare.py"], None) == 0
    assert tool.select(project, ["agentic_backend/common.py"]) == [test for test in common if "rare" not in test]
    assert tool.select(project, ["agentic_backend/far.py"]) == ["tests/test_new.py"]


def test_the_map_is_of_this_checkout(tool: ModuleType) -> None:
    """Else `make test-map` must be run again."""
    known = tool.Map.read(CHECKOUT)
    gone = [name for name in [*known.seconds, *known.tests] if not (CHECKOUT / name).is_file()]
    # A change need not record anew; what some changes have left behind shows that it is time.
    assert len(gone) <= len(known.seconds) / 20, gone
    written = [file for file in (CHECKOUT / tool.PRODUCT).rglob("*.py") if "def " in file.read_text()]
    absent = [str(file) for file in written if file.relative_to(CHECKOUT).as_posix() not in known.tests]
    assert len(absent) <= len(written) / 20, absent


def test_each_file_of_the_product_has_tests(tool: ModuleType) -> None:
    known = tool.Map.read(CHECKOUT)
    for file, tests in known.tests.items():
        assert tests == sorted(set(tests)) and set(tests) <= known.seconds.keys(), file
    assert (CHECKOUT / tool.MAP).stat().st_size < 300_000


def test_quick_tests_are_those_that_take_little_and_the_others_are_told(
    tool: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = tool.Map.read(CHECKOUT).seconds
    found = tool.quick(CHECKOUT)
    assert "tests/test_errors.py" in found and all(seconds[test] <= tool.QUICK_S for test in found)
    assert not any(test.startswith("tests/e2e/test_page") for test in found)
    told = capsys.readouterr().err
    assert told.startswith(f"{len(found)} of ") and "e2e " in told and "faults " in told
