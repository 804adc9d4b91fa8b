"""Each case that docs/agents.md tells of names its tests, and they are there."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "agents.md").read_text()
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
    for table in PAGE.split("| case | what happens | shown by |\n|---|---|---|\n")[1:]
    for line in table.partition("\n\n")[0].splitlines()
    if line.startswith("| ")
]
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_every_case_has_its_tests(row: list[str]) -> None:
    case, outcome, shown_by = row
    assert case and outcome
    named = NAMED.findall(shown_by)
    assert named
    for path, name in named:
        written = {node.name for node in ast.walk(ast.parse((TESTS / path).read_text())) if hasattr(node, "name")}
        assert name in written
