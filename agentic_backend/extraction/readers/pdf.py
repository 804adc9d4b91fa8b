"""PDF: the text of its pages in the order in which it is drawn, with the place of each line, as PDFium finds both."""

import ctypes
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from math import hypot

import pypdfium2
from pypdfium2 import raw

from agentic_backend.extraction.document import Document, Page
from agentic_backend.extraction.kinds import Refused
from agentic_backend.extraction.readers.aligned_rows import Cell
from agentic_backend.extraction.readers.pdf_layout import Layout, Run, too_long
from agentic_backend.extraction.writing import clean

# In place of a hyphen, by PDFium's version, that divides a word between two lines.
_HYPHENS = "\x02\ufffe"
_ENDS = "\r\n" + _HYPHENS
_PRECISION = 100
_BOLD = 600
_LARGEST = 10_000.0
_NAME_BYTES = 128
# A gap between cells, in sizes of the font; between words it is a third.
_CELL_GAP = 1.2

_Sides = tuple[float, float, float, float]
"""Left, bottom, right and top, as the page has them."""


def opened_pdf(data: bytes) -> pypdfium2.PdfDocument:
    """Raises Refused, and whatever the library raises."""
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise Refused("the PDF is encrypted") from None
        raise


def read_pdf(data: bytes, most_pages: int, most_characters: int) -> Document:
    """Raises Refused, and whatever the library raises."""
    pdf = opened_pdf(data)
    if len(pdf) > most_pages:
        raise Refused(f"the PDF has {len(pdf):,} pages; at most {most_pages:,} are read")
    pages, runs, left = [], [], most_characters
    for number in range(len(pdf)):
        page = pdf[number]
        pages.append(Page(raw.FPDF_GetPageWidthF(page), raw.FPDF_GetPageHeightF(page)))
        found = list(_PageText(page, number + 1, pages[-1]).runs(left))
        left -= sum(len(run.text) for run in found)
        if left < 0:
            raise too_long(most_characters)
        runs += found
        page.close()
    if not runs:
        raise Refused("the PDF has no text, only images perhaps: it may be a scan")
    return Layout(runs, pages).document(most_characters)


class _PageText:
    def __init__(self, page: pypdfium2.PdfPage, number: int, shown: Page) -> None:
        self._page = page
        self._number = number
        self._shown = shown
        self._text = page.get_textpage()

    def runs(self, most_characters: int) -> Iterator[Run]:
        """Raises Refused if the page has more characters."""
        count = raw.FPDFText_CountChars(self._text)
        # Spaces that it makes between letters, and ends of lines, are among them.
        if count > 2 * most_characters + 1_000:
            raise too_long(most_characters)
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

    def _run(self, text: str, start: int, end: int, *, joins: bool) -> Run:
        rectangles, size = self._rectangles(start, end), self._size(start)
        lefts, bottoms, rights, tops = zip(*rectangles, strict=True)
        left, bottom, right, top = min(lefts), min(bottoms), max(rights), max(tops)
        loose = raw.FS_RECTF()
        has_box = raw.FPDFText_GetLooseCharBox(self._text, start, loose)
        if has_box:
            top, bottom = max(top, loose.top), min(bottom, loose.bottom)
        corners = [self._shown_at(left, top), self._shown_at(right, bottom)]
        (x1, x2), (y1, y2) = (sorted(values) for values in zip(*corners, strict=True))
        cells = () if joins else self._cells(rectangles, start, end, size)
        return Run(text, self._number, (x1, y1, x2, y2), size, self._is_bold(start), joins, cells)

    def _rectangles(self, start: int, end: int) -> list[_Sides]:
        """Around the letters, one for each piece that is drawn at once."""
        sides = []
        left, top, right, bottom = (ctypes.c_double() for _ in range(4))
        for number in range(raw.FPDFText_CountRects(self._text, start, end - start)):
            if raw.FPDFText_GetRect(self._text, number, left, top, right, bottom):
                sides.append((left.value, bottom.value, right.value, top.value))
        return sides or [(0.0, 0.0, 0.0, 0.0)]

    def _cells(self, rectangles: Sequence[_Sides], start: int, end: int, size: float) -> tuple[Cell, ...]:
        """The pieces of a line between which there are gaps; none if there is one piece."""
        spans: list[tuple[float, float]] = []
        for left, _, right, _ in sorted(rectangles):
            if spans and left - spans[-1][1] <= _CELL_GAP * size:
                spans[-1] = spans[-1][0], max(spans[-1][1], right)
            else:
                spans.append((left, right))
        # Of a page that is turned, lines may go down.
        if len(spans) < 2 or self._page.get_rotation():
            return ()
        texts = self._divided([left for left, _ in spans], start, end)
        cells = (Cell(clean(text).strip(), *span) for text, span in zip(texts, spans, strict=True))
        return tuple(cell for cell in cells if cell.text)

    def _divided(self, lefts: Sequence[float], start: int, end: int) -> list[str]:
        """The characters from each of these places on."""
        texts, number = [""] * len(lefts), 0
        left, right, bottom, top = (ctypes.c_double() for _ in range(4))
        for place in range(start, end):
            if not raw.FPDFText_IsGenerated(self._text, place):
                raw.FPDFText_GetCharBox(self._text, place, left, right, bottom, top)
                middle = (left.value + right.value) / 2
                number = max(bisect_right(lefts, middle) - 1, 0)
            code = raw.FPDFText_GetUnicode(self._text, place)
            texts[number] += chr(code) if 0 < code <= 0x10FFFF else ""
        return texts

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
