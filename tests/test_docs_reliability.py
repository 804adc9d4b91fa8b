"""docs/reliability.md has a row for every test of faults, and each row's test is there."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "reliability.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if re.match(r"\| [^-p]", line)
]
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def names_in(path: Path) -> set[str]:
    """The names of the test functions of a file."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.parse(path.read_text()).body
    return {node.name for node in nodes if isinstance(node, functions) and node.name.startswith("test_")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_every_promise_has_a_test_and_a_figure(row: list[str]) -> None:
    promise, how, figure = row
    assert promise and figure.strip("-")
    named = NAMED.findall(how)
    assert named
    for path, name in named:
        assert name in names_in(TESTS / path)


def test_every_test_of_faults_has_its_row() -> None:
    named = {(path, name) for path, name in NAMED.findall(PAGE) if path.startswith("faults/")}
    files = (TESTS / "faults").glob("test_*.py")
    written = {(f"faults/{path.name}", name) for path in files for name in names_in(path)}
    assert written == named
