"""Tables without lines around them: rows of short pieces that stand below each other. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

LONGEST_CELL = 40
"""Characters that the cells of a table have on average, at most: columns of prose are no table."""


class Cell(NamedTuple):
    """A piece of a line, and where it begins and ends from left to right, in points."""

    text: str
    left: float
    right: float


def aligned(rows: Sequence[Sequence[Cell]]) -> bool:
    """Whether the rows are those of a table: at least two, or three of two columns, most of them filled."""
    if len(rows) < 2:
        return False
    columns = _columns(rows)
    if len(columns) < 2 or (len(columns) == 2 and len(rows) < 3):
        return False
    # Pieces of one line in one column: the gaps are those of prose.
    if any(len({_column_of(cell, columns) for cell in row}) < len(row) for row in rows):
        return False
    full = sum(len(row) == len(columns) for row in rows)
    cells = [cell for row in rows for cell in row]
    return full * 2 >= len(rows) and sum(len(cell.text) for cell in cells) <= LONGEST_CELL * len(cells)


def rows_of(rows: Sequence[Sequence[Cell]]) -> list[list[str]]:
    """The texts of the cells of a table, each in its column."""
    columns = _columns(rows)
    texts = [[""] * len(columns) for _ in rows]
    for row, into in zip(rows, texts, strict=True):
        for cell in row:
            into[_column_of(cell, columns)] = cell.text
    return texts


def _columns(rows: Sequence[Sequence[Cell]]) -> list[tuple[float, float]]:
    """Where the columns are: what the cells cover, from left to right."""
    columns: list[tuple[float, float]] = []
    for left, right in sorted((cell.left, cell.right) for row in rows for cell in row):
        if columns and left <= columns[-1][1]:
            columns[-1] = columns[-1][0], max(columns[-1][1], right)
        else:
            columns.append((left, right))
    return columns


def _column_of(cell: Cell, columns: Sequence[tuple[float, float]]) -> int:
    return next(number for number, (left, right) in enumerate(columns) if left <= cell.left <= right)
