"""PDF: the text of its pages in the order in which it is drawn, with the place of each line, as PDFium finds both.

A PDF has no structure but letters of some size at some place: headings are lines that are larger than most of the text,
or bold and alone; paragraphs end where the lines leave a gap, or go on elsewhere.
"""

import ctypes
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from math import hypot

import pypdfium2
from pypdfium2 import raw

from agentic_backend.extraction.document import Box, Document, Line, Page
from agentic_backend.extraction.kinds import Refused
from agentic_backend.extraction.writing import Blocks, clean

# In place of a hyphen, by PDFium's version, that divides a word between two lines.
_HYPHENS = "\x02\ufffe"
_ENDS = "\r\n" + _HYPHENS
_BULLETS = ("•", "◦", "▪", "‣", "–", "—", "-", "*", "○", "●", "\uf0b7")
_PRECISION = 100
_LONGEST_HEADING = 200
_LARGER, _GAP = 1.12, 0.45
_BOLD = 600
_LARGEST = 10_000.0
# Between a title and its page in a table of contents.
_LEADERS = re.compile(r"(?:\. ?){4}")
_NAME_BYTES = 128


@dataclass(frozen=True, slots=True)
class _Run:
    """Letters on one line: a line, or the part of it before or after the hyphen that joins it with another."""

    text: str
    page: int
    box: Box
    size: float
    """Of its font, in points."""
    is_bold: bool
    joins: bool
    """Whether the next one goes on with the same word."""


def read_pdf(data: bytes, most_pages: int, most_characters: int) -> Document:
    """Raises Refused, and whatever the library raises."""
    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise Refused("the PDF is encrypted") from None
        raise
    if len(pdf) > most_pages:
        raise Refused(f"the PDF has {len(pdf):,} pages; at most {most_pages:,} are read")
    pages, runs, left = [], [], most_characters
    for number in range(len(pdf)):
        page = pdf[number]
        pages.append(Page(raw.FPDF_GetPageWidthF(page), raw.FPDF_GetPageHeightF(page)))
        found = list(_PageText(page, number + 1, pages[-1]).runs(left))
        left -= sum(len(run.text) for run in found)
        if left < 0:
            raise _too_long(most_characters)
        runs += found
        page.close()
    if not runs:
        raise Refused("the PDF has no text, only images perhaps: it may be a scan")
    return _Layout(runs, pages).document(most_characters)


def _too_long(most_characters: int) -> Refused:
    return Refused(f"the text of the PDF has more than {most_characters:,} characters")


class _PageText:
    def __init__(self, page: pypdfium2.PdfPage, number: int, shown: Page) -> None:
        self._page = page
        self._number = number
        self._shown = shown
        self._text = page.get_textpage()

    def runs(self, most_characters: int) -> Iterator[_Run]:
        """Raises Refused if the page has more characters."""
        count = raw.FPDFText_CountChars(self._text)
        # Spaces that it makes between letters, and ends of lines, are among them.
        if count > 2 * most_characters + 1_000:
            raise _too_long(most_characters)
        characters = self._characters(count)
        start = 0
        for place, character in enumerate(chain(characters, "\n")):
            # A character that is none is empty.
            if character and character in _ENDS:
                text = clean("".join(characters[start:place])).strip()
                if text:
                    # A name such as `E-Mail` keeps its hyphen.
                    follows = characters[place + 1 : place + 2]
                    joins = character in _HYPHENS
                    hyphen = "-" if joins and not (follows and follows[0].islower()) else ""
                    yield self._run(text + hyphen, start, place, joins=joins)
                start = place + 1

    def _characters(self, count: int) -> Sequence[str]:
        """Each character at the place by which PDFium knows it."""
        text = self._text.get_text_range()
        # A call for each takes ten times as long; of some pages it gives other characters than it counts.
        characters: Sequence[str] = text
        if len(text) != count:
            codes = (raw.FPDFText_GetUnicode(self._text, place) for place in range(count))
            characters = [chr(code) if 0 < code <= 0x10FFFF else "" for code in codes]
        return characters

    def _run(self, text: str, start: int, end: int, *, joins: bool) -> _Run:
        left, bottom, right, top = self._rectangle(start, end)
        loose = raw.FS_RECTF()
        has_box = raw.FPDFText_GetLooseCharBox(self._text, start, loose)
        if has_box:
            top, bottom = max(top, loose.top), min(bottom, loose.bottom)
        corners = [self._shown_at(left, top), self._shown_at(right, bottom)]
        (x1, x2), (y1, y2) = (sorted(values) for values in zip(*corners, strict=True))
        return _Run(text, self._number, (x1, y1, x2, y2), self._size(start), self._is_bold(start), joins)

    def _rectangle(self, start: int, end: int) -> tuple[float, float, float, float]:
        """Left, bottom, right and top, as the page has them."""
        sides = []
        left, top, right, bottom = (ctypes.c_double() for _ in range(4))
        for number in range(raw.FPDFText_CountRects(self._text, start, end - start)):
            if raw.FPDFText_GetRect(self._text, number, left, top, right, bottom):
                sides.append((left.value, bottom.value, right.value, top.value))
        if not sides:
            return 0.0, 0.0, 0.0, 0.0
        lefts, bottoms, rights, tops = zip(*sides, strict=True)
        return min(lefts), min(bottoms), max(rights), max(tops)

    def _shown_at(self, x: float, y: float) -> tuple[float, float]:
        """A point of the page as it is shown, turned and cropped."""
        width, height = (round(_PRECISION * side) for side in (self._shown.width, self._shown.height))
        shown_x, shown_y = ctypes.c_int(), ctypes.c_int()
        raw.FPDF_PageToDevice(self._page, 0, 0, width, height, 0, x, y, shown_x, shown_y)
        return shown_x.value / _PRECISION, shown_y.value / _PRECISION

    def _size(self, place: int) -> float:
        """Of the font, as large as the page shows it."""
        size, matrix = raw.FPDFText_GetFontSize(self._text, place), raw.FS_MATRIX()
        scale = hypot(matrix.c, matrix.d) if raw.FPDFText_GetMatrix(self._text, place, matrix) else 1.0
        return min(size * scale, _LARGEST) if size * scale > 0 else 0.0

    def _is_bold(self, place: int) -> bool:
        if raw.FPDFText_GetFontWeight(self._text, place) >= _BOLD:
            return True
        name = ctypes.create_string_buffer(_NAME_BYTES)
        length = raw.FPDFText_GetFontInfo(self._text, place, name, _NAME_BYTES, None)
        return 0 < length <= _NAME_BYTES and b"bold" in name.value.lower()


class _Layout:
    def __init__(self, runs: Sequence[_Run], pages: Sequence[Page]) -> None:
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

    def document(self, most_characters: int) -> Document:
        blocks, length = Blocks(), 0
        lines: list[Line] = []
        pieces: list[str] = []
        for group in self._groups():
            if pieces:
                pieces.append("\n\n")
                length += 2
            start = length
            for number, run in enumerate(group):
                lines.append(Line(length, length + len(run.text), run.page, run.box))
                between = "" if number + 1 == len(group) or run.joins else "\n"
                pieces.append(run.text + between)
                length += len(run.text) + len(between)
            level = self._level(group)
            title = " ".join("".join(pieces[-len(group) :]).split())
            if level is not None:
                blocks.add("heading", start, length, title=title, level=level)
            elif title.startswith(_BULLETS) and title[1:2] == " ":
                blocks.add("item", start, length, level=1)
            else:
                blocks.add("paragraph", start, length)
        if length > most_characters:
            raise _too_long(most_characters)
        return Document("pdf", "".join(pieces), tuple(blocks.found), tuple(self._pages), tuple(lines))

    def _groups(self) -> Iterator[list[_Run]]:
        """The lines of each paragraph or heading."""
        numbers = [0]
        for before, run in pairwise(self._runs):
            numbers.append(numbers[-1] + self._begins(before, run))
        for _, group in groupby(zip(numbers, self._runs, strict=True), key=lambda each: each[0]):
            yield [run for _, run in group]

    def _begins(self, before: _Run, run: _Run) -> bool:
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

    def _is_large(self, run: _Run) -> bool:
        return run.size > _LARGER * self._size

    def _level(self, group: Sequence[_Run]) -> int | None:
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
