"""What the lines of a PDF are: headings, paragraphs, items, rows of tables.

A PDF has no structure but letters of some size at some place: headings are lines that are larger than most of the text,
or bold and alone; paragraphs end where the lines leave a gap, or go on elsewhere. Pure.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentic_backend.extraction.document import Box, Document, Line, Page, is_caption, table_text
from agentic_backend.extraction.kinds import Refused
from agentic_backend.extraction.readers.aligned_rows import Cell, aligned, rows_of
from agentic_backend.extraction.writing import LONGEST_TITLE, Blocks

_BULLETS = ("•", "◦", "▪", "‣", "–", "—", "-", "*", "○", "●", "\uf0b7")
_LONGEST_HEADING = 200
_LARGER, _GAP, _ROW_GAP = 1.12, 0.45, 1.5
# Between a title and its page in a table of contents.
_LEADERS = re.compile(r"(?:\. ?){4}")


@dataclass(frozen=True, slots=True)
class Run:
    """Letters on one line: a line, or the part of it before or after the hyphen that joins it with another."""

    text: str
    page: int
    box: Box
    size: float
    """Of its font, in points."""
    is_bold: bool
    joins: bool
    """Whether the next one goes on with the same word."""
    cells: tuple[Cell, ...] = ()
    """Its pieces, where there are gaps between them as in a table."""


def too_long(most_characters: int) -> Refused:
    return Refused(f"the text of the PDF has more than {most_characters:,} characters")


class Layout:
    def __init__(self, runs: Sequence[Run], pages: Sequence[Page]) -> None:
        self._runs = runs
        self._pages = pages
        by_size: Counter[float] = Counter()
        bold = 0
        for run in runs:
            by_size[_rounded(run.size)] += len(run.text)
            bold += len(run.text) * run.is_bold
        self._size = max(by_size, key=lambda size: by_size[size])
        """Of most of the text."""
        self._is_bold = bold * 2 > by_size.total()
        sizes = {_rounded(run.size) for run in runs if self._is_large(run)}
        self._levels = {size: min(level, 6) for level, size in enumerate(sorted(sizes, reverse=True), start=1)}
        self._blocks = Blocks()
        self._lines: list[Line] = []
        self._pieces: list[str] = []
        self._length = 0
        self._last = ""
        """The text of the last paragraph, in one line."""

    def document(self, most_characters: int) -> Document:
        """Raises Refused if its text has more characters."""
        for is_table, group in self._groups():
            if is_table:
                self._add_table(group)
            else:
                self._add_lines(group)
            if self._length > most_characters:
                raise too_long(most_characters)
        text, found = "".join(self._pieces), self._blocks.found
        return Document("pdf", text, tuple(found), tuple(self._pages), tuple(self._lines))

    def _add_lines(self, group: Sequence[Run]) -> None:
        """A paragraph, a heading or an item."""
        start = self._begin()
        first = len(self._pieces)
        for number, run in enumerate(group):
            self._add_line(run, run.text)
            if number + 1 < len(group) and not run.joins:
                self._write("\n")
        level = self._level(group)
        self._last = " ".join("".join(self._pieces[first:]).split())
        if level is not None:
            self._blocks.add("heading", start, self._length, title=self._last, level=level)
        elif self._last.startswith(_BULLETS) and self._last[1:2] == " ":
            self._blocks.add("item", start, self._length, level=1)
        else:
            self._blocks.add("paragraph", start, self._length)

    def _add_table(self, group: Sequence[Run]) -> None:
        start, caption, found = self._begin(), None, self._blocks.found
        if found and found[-1].kind == "paragraph" and is_caption(self._last):
            start, caption = found.pop().start, self._last[:LONGEST_TITLE]
        head, rule, *rows = table_text(rows_of([run.cells for run in group])).split("\n")
        self._add_line(group[0], head)
        self._write(f"\n{rule}")
        for run, row in zip(group[1:], rows, strict=True):
            self._write("\n")
            self._add_line(run, row)
        self._blocks.add("table", start, self._length, caption=caption)

    def _begin(self) -> int:
        """Where the next block begins, behind an empty line."""
        if self._pieces:
            self._write("\n\n")
        return self._length

    def _write(self, text: str) -> None:
        self._pieces.append(text)
        self._length += len(text)

    def _add_line(self, run: Run, text: str) -> None:
        self._lines.append(Line(self._length, self._length + len(text), run.page, run.box))
        self._write(text)

    def _groups(self) -> Iterator[tuple[bool, Sequence[Run]]]:
        """The lines of each paragraph, heading or table, and whether it is a table."""
        tables, place = dict(self._tables()), 0
        while place < len(self._runs):
            end, is_table = tables.get(place, place + 1), place in tables
            while not is_table and end < len(self._runs) and end not in tables:
                if self._begins(self._runs[end - 1], self._runs[end]):
                    break
                end += 1
            yield is_table, self._runs[place:end]
            place = end

    def _tables(self) -> Iterator[tuple[int, int]]:
        """Where tables begin and end among the lines."""
        place = 0
        while place < len(self._runs):
            end = place + 1
            while end < len(self._runs) and _are_rows(self._runs[end - 1], self._runs[end]):
                end += 1
            if aligned([run.cells for run in self._runs[place:end]]):
                yield place, end
            # What is no table as a whole is looked at no further: its lines are text.
            place = end

    def _begins(self, before: Run, run: Run) -> bool:
        """Whether another paragraph begins with `run`."""
        if before.page != run.page:
            return True
        if before.joins:
            return False
        is_other = _rounded(before.size) != _rounded(run.size) and (self._is_large(before) or self._is_large(run))
        if is_other or (before.is_bold != run.is_bold and not self._is_large(run)):
            return True
        if run.text.startswith(_BULLETS) and run.text[1:2] == " ":
            return True
        gap = run.box[1] - before.box[3]
        # Above the line before, another column begins.
        return gap > _GAP * max(before.size, run.size, 1) or run.box[3] < before.box[1]

    def _is_large(self, run: Run) -> bool:
        return run.size > _LARGER * self._size

    def _level(self, group: Sequence[Run]) -> int | None:
        """Of a heading; None of another paragraph."""
        text = "".join(run.text for run in group)
        if len(text) > _LONGEST_HEADING or not any(map(str.isalpha, text)) or _LEADERS.search(text):
            return None
        if all(self._is_large(run) for run in group):
            return self._levels[_rounded(group[0].size)]
        is_alone = len(group) <= 2 and all(run.is_bold for run in group) and not text.endswith((".", ",", ";", ":"))
        if is_alone and not self._is_bold and abs(group[0].size - self._size) <= 1:
            return min(len(self._levels) + 1, 6)
        return None


def _rounded(size: float) -> float:
    return round(size * 2) / 2


def _are_rows(before: Run, run: Run) -> bool:
    """Whether both may be rows of one table, the second below the first."""
    gap = run.box[1] - before.box[3]
    is_below = before.page == run.page and run.box[1] > before.box[1] and gap <= _ROW_GAP * max(before.size, run.size)
    return bool(before.cells and run.cells) and is_below
