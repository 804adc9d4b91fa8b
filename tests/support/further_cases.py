"""Plugin: leaves out cases that show nothing new, except with TESTS=long.

A class of cases (an alert that a drill fires, a hostile file, an order of two events) has one case that runs every
time; the others have the marker `further`. `further(value)` is a parameter that has it. A test that is named on the
command line always runs.
"""

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest

LONG = os.environ.get("TESTS") == "long"
"""Whether all that docs/reliability.md, docs/security.md and docs/gameday.md promise is tried, at full length."""


def further(*values: object, id: str | None = None) -> Any:
    return pytest.param(*values, marks=pytest.mark.further, id=id)


def further_but(every_time: Collection[str], cases: Iterable[str]) -> list[Any]:
    """The cases as parameters, of which those of `every_time` run every time."""
    return [case if case in every_time else further(case) for case in cases]


def all_but_first(*values: object) -> list[Any]:
    """Parameters, of which one runs every time."""
    return [values[0], *(further(value) for value in values[1:])]


def each_once(rows: Iterable[Any], columns: Iterable[Any]) -> list[Any]:
    """All pairs, as parameters. The first row runs every time with each column, each other row with one, in turn."""
    ways = list(columns)
    return [
        (pytest.param if at == 0 or at % len(ways) == place else further)(*_values(row), *_values(way))
        for at, row in enumerate(rows)
        for place, way in enumerate(ways)
    ]


def _values(one: Any) -> tuple[Any, ...]:
    return one if isinstance(one, tuple) else (one,)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if LONG:
        return
    named = {argument.replace(os.sep, "/") for argument in config.args if "::" in argument}
    left_out = {item for item in items if item.get_closest_marker("further") and not _is_named(item.nodeid, named)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _is_named(nodeid: str, named: set[str]) -> bool:
    return any(name.endswith((nodeid, nodeid.partition("[")[0])) for name in named)
