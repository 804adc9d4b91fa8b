"""docs/reliability.md and docs/security.md have a row for every test of their folders, and each row's test is there.

What a row tells is what its test has measured at full length.
"""

import ast
import re
from pathlib import Path

import pytest
from support import tables
from support.tables import HEADER

TESTS = Path(__file__).parent
PAGES = {campaign: path.read_text() for campaign, path in tables.PAGES.items()}
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for page in PAGES.values()
    for table in page.split(HEADER)[1:]
    for line in table.partition("\n\n")[0].splitlines()
    if re.match(r"\| [^-]", line)
]
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
THE_MEASURE = {("hostile/test_bystander.py", "test_it_feels_a_server_that_stands_still")}
"""What shows no promise, but that the tests see what they look at."""


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


@pytest.mark.parametrize("folder", PAGES)
def test_every_test_of_the_folder_has_its_row(folder: str) -> None:
    named = {(path, name) for path, name in NAMED.findall(PAGES[folder]) if path.startswith(f"{folder}/")}
    files = (TESTS / folder).glob("test_*.py")
    written = {(f"{folder}/{path.name}", name) for path in files for name in names_in(path)}
    assert written - THE_MEASURE == named


@pytest.mark.parametrize("campaign", PAGES)
def test_the_tables_are_made_from_what_was_measured(campaign: str) -> None:
    assert tables.made(PAGES[campaign], tables.measured(campaign)) == PAGES[campaign]


def test_every_test_of_faults_has_measured_something() -> None:
    files = (TESTS / "faults").glob("test_*.py")
    written = {f"faults/{path.name}::{name}" for path in files for name in names_in(path)}
    assert set(tables.measured("faults")) == written


def test_a_row_tells_what_its_tests_have_told() -> None:
    row = "| it holds | `faults/test_a.py::test_b`, `faults/test_a.py::test_c` | old |"
    page = f"# Page\n\n{HEADER}\n|---|---|---|\n{row}\n| by hand | `test_d.py::test_e` | 3 |\n"
    told = {"faults/test_a.py::test_b": ["1 ms", "2 ms"], "faults/test_a.py::test_c": ["none lost"]}
    assert tables.made(page, told) == page.replace("| old", "| 1 ms; 2 ms; none lost")
