"""How a long table is cut: between its rows, and a row that is too long itself between its cells."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from agentic_backend.applications.retrieval.chunking.sizes import MOST_CHARACTERS, pieces_of, tokens_in

_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*+\|?[ \t]*")
_BAR = re.compile(r"\\.|(\|)")
_LONGEST_CELL = 60
"""Characters of a cell of the head, or of a row's first one, where a long row is cut."""


class TablePiece(NamedTuple):
    start: int
    end: int
    before: str
    """What it needs to be understood, such as the table's caption and its head; empty for the first."""


def table_pieces(text: str, start: int, end: int, caption: str, most: int, taken: int = 0) -> Iterator[TablePiece]:
    """Pieces of up to `most` tokens, of which the first has `taken` already, if it can; what stands before each has
    about as many more at most."""
    lines = list(_lines(text, start, end))
    rule = next((number for number, line in enumerate(lines) if number and _is_rule(text, *line)), 0)
    head = _Head(text[slice(*lines[rule - 1])].strip() if rule else "", caption, most)
    body = lines[rule + 1][0] if 0 < rule < len(lines) - 1 else end
    begun, size, last = start, taken, start
    for number, (first, behind) in enumerate(lines):
        is_long = behind - first > MOST_CHARACTERS * most
        length = most + 1 if is_long else tokens_in(text[first:behind])
        if last > begun and size + length > most:
            yield TablePiece(begun, last, head.repeated if begun >= body else "")
            begun, size = first, 0
        if length > most:
            yield from _cut_row(text, begun, behind, head, most, is_head=begun < body)
            begun, size = lines[number + 1][0] if number + 1 < len(lines) else end, 0
        else:
            size += length
        last = behind
    if begun < end:
        yield TablePiece(begun, end, head.repeated if begun >= body else "")


class _Head:
    """What pieces of a table have above them."""

    def __init__(self, row: str, caption: str, most: int) -> None:
        self.caption = _within(" ".join(caption.split()), most // 4)
        self.names = [_clipped(row[first:behind]) for first, behind in _cells(row, 0, len(row))]
        self.lengths = [tokens_in(name) for name in self.names]
        whole = _head_text(row, len(self.names)) if 0 < len(row) <= MOST_CHARACTERS * most else ""
        self.repeated = "\n".join(filter(None, [self.caption, whole if tokens_in(whole) <= most // 2 else ""]))

    def length(self, column: int) -> int:
        return self.lengths[column] if column < len(self.lengths) else 0

    def above(self, first: int, end: int, row_name: str) -> str:
        """Above some cells of a row, from one column to another: their names, and the row's first cell."""
        names = self.names[first:end]
        head = _head_text("| " + " | ".join(names) + " |", len(names)) if any(names) else ""
        return "\n".join(filter(None, [self.caption, head, f"| {row_name} |" if first and row_name else ""]))


def _cut_row(text: str, start: int, end: int, head: _Head, most: int, *, is_head: bool) -> Iterator[TablePiece]:
    """Pieces of a row, each below the names of its cells."""
    cells = _cells(text, start, end)
    row_name = _clipped(text[slice(*cells[0])])
    first, size = 0, 0
    for number in range(len(cells) + 1):
        length = 0
        if number < len(cells):
            # With the cell's name, so that a piece below long names is not much longer.
            length = tokens_in(text[slice(*cells[number])]) + (0 if is_head else head.length(number))
        if number == len(cells) or (number > first and size + length > most):
            above = "" if is_head else head.above(first, number, row_name)
            begun = start if first == 0 else cells[first][0]
            for piece_start, piece_end, _ in pieces_of(text, begun, cells[number - 1][1], most):
                yield TablePiece(piece_start, piece_end, above)
            first, size = number, 0
        size += length


def _head_text(head: str, columns: int) -> str:
    return f"{head}\n|{' --- |' * columns}"


def _is_rule(text: str, start: int, end: int) -> bool:
    return "-" in text[start : start + 200] and _RULE.fullmatch(text, start, end) is not None


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The spans of the lines that aren't empty."""
    while start < end:
        behind = text.find("\n", start, end)
        behind = end if behind < 0 else behind
        if text[start:behind].strip():
            yield start, behind
        start = behind + 1


def _cells(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The spans of a row's cells, each with the bar behind it."""
    found, begun = [], start
    for bar in _BAR.finditer(text, start, end):
        if bar[1] is None or bar.start() == start:
            continue
        found.append((begun, bar.end()))
        begun = bar.end()
    if text[begun:end].strip():
        found.append((begun, end))
    return found


def _clipped(cell: str) -> str:
    bare = " ".join(cell[: 4 * _LONGEST_CELL].strip().strip("|").split())
    return bare if len(bare) <= _LONGEST_CELL else bare[:_LONGEST_CELL] + "…"


def _within(text: str, most: int) -> str:
    """The beginning of a text, of up to so many tokens."""
    first, behind, _ = next(
        pieces_of(text[: MOST_CHARACTERS * most], 0, min(len(text), MOST_CHARACTERS * most), most), (0, 0, 0)
    )
    return text if behind == len(text) else text[first:behind] + "…"
