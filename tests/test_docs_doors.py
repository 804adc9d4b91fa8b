"""docs/doors.md has every door with its paths, and the versions of the clients that the tests run."""

import re
from pathlib import Path

import pytest

from agentic_backend.transports.contract.doors import DOORS, Door

CHECKOUT = Path(__file__).parents[1]
DOC = (CHECKOUT / "docs" / "doors.md").read_text()
LOCKED = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (CHECKOUT / "requirements-dev.lock").read_text(), re.MULTILINE))


def rows(heading: str) -> list[list[str]]:
    """The cells of the rows of the table whose first column has this heading."""
    [table] = re.findall(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", DOC, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_each_door_is_in_the_table_with_its_paths(door: Door) -> None:
    [paths] = [cells[1] for cells in rows("door") if names_in(cells[0]) == [door.name]]
    assert set(door.paths) <= set(names_in(paths))


def test_no_other_door_is_in_the_table() -> None:
    assert sorted(names_in(cells[0]) for cells in rows("door")) == sorted([door.name] for door in DOORS)


@pytest.mark.parametrize("cells", rows("client"), ids=lambda cells: cells[0])
def test_each_client_has_the_version_that_the_tests_run(cells: list[str]) -> None:
    client, version, doors, where = cells
    for name, told in [(name, version) for name in names_in(client)] + re.findall(r"`(\w+)` ([\d.]+)", version):
        assert name not in LOCKED or LOCKED[name] == told
    assert set(names_in(doors)) <= {door.name for door in DOORS}
    assert all((CHECKOUT / path).exists() for path in names_in(where))
