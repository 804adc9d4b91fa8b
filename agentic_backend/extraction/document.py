"""What is read of a file: its text, the blocks of it, and for a PDF where each line stands. Pure.

All spans are `[start, end)` in characters of the document's text. A block has the headings that it stands below, so a
document can be cut by its structure; `Document.places` opens a span at its page.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

DocumentKind = Literal["markdown", "text", "code", "csv", "html", "docx", "xlsx", "pdf"]
BlockKind = Literal["heading", "paragraph", "item", "table", "code"]

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, in points from the top left corner of the page as it is shown."""

_KINDS, _BLOCK_KINDS = frozenset(get_args(DocumentKind)), frozenset(get_args(BlockKind))
_BAR = re.compile(r"(\\*)\|")


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a document: a heading, a paragraph, an item of a list, a table, a piece of code."""

    kind: BlockKind
    start: int
    end: int
    path: tuple[str, ...] = ()
    """The headings that it stands below, the outermost first."""
    level: int | None = None
    """Of a heading, from 1 to 6; of an item, 1 and, in a list within, more."""
    language: str | None = None
    """Of code, such as `python`, where it is known."""
    caption: str | None = None
    """Of a table; it is in the block's text too."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a PDF. `page` counts from 1."""

    start: int
    end: int
    page: int
    box: Box


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a PDF as it is shown; width and height in points."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Place:
    """Where a span stands: a page, counted from 1, and the boxes of its lines."""

    page: int
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A file's text as a model reads it, in Markdown where the file has headings, lists or tables, and its blocks."""

    kind: DocumentKind
    text: str = field(repr=False)
    blocks: tuple[Block, ...] = field(repr=False)
    pages: tuple[Page, ...] = field(default=(), repr=False)
    """Of a PDF."""
    lines: tuple[Line, ...] = field(default=(), repr=False)
    """Of a PDF, in the order of the text."""

    def text_of(self, block: Block) -> str:
        return self.text[block.start : block.end]

    def rows(self, table: Block) -> list[list[str]]:
        """The cells of a table, row by row; the first row is its head."""
        lines = [line for line in self.text_of(table).split("\n") if line.startswith("|")]
        # The second line divides the head from the others.
        return [list(_cells(line)) for number, line in enumerate(lines) if number != 1]

    def places(self, start: int, end: int) -> list[Place]:
        """Where the lines stand that have something of `[start, end)`, by page; nothing but a PDF has places."""
        found: dict[int, list[Box]] = {}
        first = max(0, bisect_right(self.lines, start, key=lambda line: line.start) - 1)
        for number in range(first, len(self.lines)):
            line = self.lines[number]
            if line.start >= end:
                break
            if line.end > start:
                found.setdefault(line.page, []).append(line.box)
        return [Place(page, tuple(boxes)) for page, boxes in found.items()]


def is_caption(text: str) -> bool:
    """Whether a paragraph is one that stands above or below a table."""
    return len(text) <= 500 and _CAPTION.match(text) is not None


_CAPTION = re.compile(
    r"(?:table|tabelle|tableau|tab\.|übersicht|exhibit)\s*(?:[0-9ivx]+[.0-9-]*)?\s*[.:–—-]\s*\S", re.IGNORECASE
)


def table_text(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as a table in Markdown; a row that is shorter than the others ends with empty cells."""
    width = max(map(len, rows))
    lines = []
    for number, row in enumerate(rows):
        cells = [_BAR.sub(r"\1\1\|", " ".join(cell.split())) for cell in row]
        lines.append("| " + " | ".join([*cells, *[""] * (width - len(cells))]) + " |")
        if number == 0:
            lines.append("| " + " | ".join(["---"] * width) + " |")
    return "\n".join(lines)


def _cells(line: str) -> Iterator[str]:
    """The cells of a row, as `table_text` has written them."""
    start = 1
    for bar in _BAR.finditer(line, 1):
        # A bar after an odd number of backslashes is the cell's own.
        if len(bar[1]) % 2 == 0:
            yield _unescaped(line[start : bar.end() - 1])
            start = bar.end()
    if line[start:].strip():
        yield _unescaped(line[start:])


def _unescaped(cell: str) -> str:
    return re.sub(r"(\\*)\\\|", lambda found: "\\" * (len(found[1]) // 2) + "|", cell).strip()


def packed(document: Document) -> bytes:
    """The document as `unpacked` reads it: a line of JSON, and the text behind it, which JSON would blow up."""
    paths: dict[tuple[str, ...], int] = {}
    blocks = []
    for each in document.blocks:
        path = paths.setdefault(each.path, len(paths))
        blocks.append([each.kind, each.start, each.end, path, each.level, each.language, each.caption])
    head = {
        "kind": document.kind,
        "blocks": blocks,
        "paths": list(paths),
        "pages": [[page.width, page.height] for page in document.pages],
        "lines": [[line.start, line.end, line.page, *line.box] for line in document.lines],
    }
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + document.text.encode()


def unpacked(data: bytes, head: Any) -> Document:
    """The document of which `head` is the JSON in the first line of `data`. Raises ValueError if it is none.

    What has written it may have been taken over by the file that it has read, so nothing of it is believed.
    """
    text = data[data.index(b"\n") + 1 :].decode()
    try:
        paths = [tuple(_checked(str, title) for title in path) for path in head["paths"]]
        blocks = tuple(_block(row, paths) for row in head["blocks"])
        pages = tuple(Page(_number(width), _number(height)) for width, height in head["pages"])
        lines = tuple(_line(row) for row in head["lines"])
        kind = head["kind"]
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError("no document") from error
    in_order = _are_in_order(blocks, len(text)) and _are_in_order(lines, len(text))
    if kind not in _KINDS or not in_order or any(not 1 <= line.page <= len(pages) for line in lines):
        raise ValueError("no document")
    return Document(kind, text, blocks, pages, lines)


def _block(row: Any, paths: Sequence[tuple[str, ...]]) -> Block:
    kind, start, end, path, level, language, caption = row
    if kind not in _BLOCK_KINDS or type(path) is not int or path < 0:
        raise ValueError("no block")
    return Block(
        kind,
        _checked(int, start),
        _checked(int, end),
        paths[path],
        None if level is None else _checked(int, level),
        None if language is None else _checked(str, language),
        None if caption is None else _checked(str, caption),
    )


def _line(row: Any) -> Line:
    start, end, page, left, top, right, bottom = row
    box = (_number(left), _number(top), _number(right), _number(bottom))
    return Line(_checked(int, start), _checked(int, end), _checked(int, page), box)


def _are_in_order(spans: Sequence[Block] | Sequence[Line], length: int) -> bool:
    before = 0
    for each in spans:
        if not before <= each.start <= each.end <= length:
            return False
        before = each.end
    return True


def _checked(of: type, value: Any) -> Any:
    # A truth value is no number here.
    if type(value) is not of:
        raise ValueError("no such value")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not -1e9 < value < 1e9:
        raise ValueError("no number")
    return float(value)
