"""`tools/mutants.py`: what it changes is code, is changed back, and is the same each time."""

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "mutants.py"
CODE = '''
def shown(text: str | None, most: int = 3) -> bool:
    """Whether it is."""
    if text is None or not text:
        return False
    assert f"{1 + 1}"
    return len("ä") < most and text != "é"
'''


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool beside a product of one file."""
    spec = importlib.util.spec_from_file_location("mutants", TOOL)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mutants", tool)
    spec.loader.exec_module(tool)
    (tmp_path / "agentic_backend" / "room").mkdir(parents=True)
    (tmp_path / "agentic_backend" / "room" / "shown.py").write_text(CODE)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "PRODUCT", tmp_path / "agentic_backend")
    monkeypatch.setattr(tool, "BIG", 1)
    return tool


def test_each_mutant_is_other_code(tool: ModuleType) -> None:
    mutants = tool.mutants(seed=1, each=100)
    assert len(mutants) == 8
    for mutant in mutants:
        source = mutant.file.read_bytes()
        changed = source[: mutant.start] + mutant.after.encode() + source[mutant.end :]
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), mutant
    assert [str(mutant) for mutant in tool.mutants(1, 3)] == [str(mutant) for mutant in tool.mutants(1, 3)]


def test_a_mutant_is_killed_by_a_command_that_fails(tool: ModuleType) -> None:
    [mutant] = [one for one in tool.mutants(1, 100) if "most" in one.before and "and" not in one.before]
    check = "import runpy; assert not runpy.run_path('{file}')['shown']('x', 1)"
    assert not tool.survives(mutant, [sys.executable, "-c", check], 30)
    assert tool.survives(mutant, [sys.executable, "-c", "pass"], 30)
    assert not tool.survives(mutant, [sys.executable, "-c", "import time; time.sleep(60)"], 1)
    assert mutant.file.read_text() == CODE
