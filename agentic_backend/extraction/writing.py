"""How a document is put together by what reads a file: its blocks, and its text where the file has another form."""

import re
from collections.abc import Sequence
from dataclasses import replace

from agentic_backend.extraction.document import Block, BlockKind, Document, DocumentKind, is_caption, table_text
from agentic_backend.extraction.kinds import Refused
from agentic_backend.text.fenced_code import fenced

MOST_BLOCKS = 200_000
LONGEST_TITLE = 500
"""Characters of a heading in the paths of what stands below it, and of a caption."""

# Characters that a text can't have or that no store keeps: halves of characters, and controls.
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_PAIR = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")


def clean(text: str) -> str:
    """The text without characters that can't be stored; two halves of one become whole."""
    if not _NO_TEXT.search(text):
        return text
    text = _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _NO_TEXT.sub(lambda found: "\ufffd" if found[0] >= "\ud800" else "", text)


class Blocks:
    """The blocks of a text, in its order, each with the headings above it."""

    def __init__(self) -> None:
        self.found: list[Block] = []
        self._headings: list[tuple[int, str]] = []
        """The headings above what comes next, each with its level; the levels rise."""
        self._path: tuple[str, ...] = ()

    def add(
        self,
        kind: BlockKind,
        start: int,
        end: int,
        *,
        title: str | None = None,
        level: int | None = None,
        language: str | None = None,
        caption: str | None = None,
    ) -> None:
        """`title` is a heading's text without its marks. Raises Refused if there are too many blocks."""
        if len(self.found) >= MOST_BLOCKS:
            raise Refused(f"it has more than {MOST_BLOCKS:,} paragraphs")
        if kind == "heading" and title is not None and level is not None:
            while self._headings and self._headings[-1][0] >= level:
                self._headings.pop()
            self._path = tuple(each for _, each in self._headings)
            self.found.append(Block(kind, start, end, self._path, level))
            self._headings.append((level, title[:LONGEST_TITLE]))
            self._path = (*self._path, title[:LONGEST_TITLE])
            return
        self.found.append(Block(kind, start, end, self._path, level, language, caption))


class Writer:
    """Writes a document's text in Markdown, block by block, up to a number of characters; beyond, it raises Refused."""

    def __init__(self, most_characters: int) -> None:
        self._most = most_characters
        self._pieces: list[str] = []
        self.length = 0
        self.blocks = Blocks()
        self._caption: str | None = None
        """A caption of which it is not known yet whether a table follows."""

    def heading(self, level: int, text: str) -> None:
        if title := " ".join(clean(text).split()):
            level = min(max(level, 1), 6)
            start = self._written("#" * level + " " + title)
            self.blocks.add("heading", start, self.length, title=title, level=level)

    def paragraph(self, text: str, *, caption: bool = False) -> None:
        """`caption`: whether it is known to be one of a table."""
        text = clean(text).strip()
        if not text:
            return
        if caption or is_caption(text):
            self._settle_caption()
            self._caption = text
            return
        start = self._written(text)
        self.blocks.add("paragraph", start, self.length)

    def item(self, level: int, text: str, mark: str = "-") -> None:
        if text := clean(text).strip():
            follows = self._caption is None and bool(self.blocks.found) and self.blocks.found[-1].kind == "item"
            indent = "  " * (min(level, 20) - 1)
            body = text.replace("\n", "\n" + indent + "  ")
            start = self._written(f"{indent}{mark} {body}", between="\n" if follows else "\n\n")
            self.blocks.add("item", start, self.length, level=level)

    def code(self, text: str, language: str | None = None) -> None:
        text = clean(text).strip("\n")
        if text.strip():
            start = self._written(fenced(text, language or ""))
            self.blocks.add("code", start, self.length, language=language)

    def table(self, rows: Sequence[Sequence[str]], caption: str = "") -> None:
        """Leading rows with one cell above a wider one are part of its caption; empty rows and columns are left out."""
        kept = [row for row in ([clean(cell).strip() for cell in row] for row in rows) if any(row)]
        captions = [self._caption or "", clean(caption)]
        while len(kept) > 1 and _count(kept[0]) == 1 < _count(kept[1]):
            captions.append("".join(kept.pop(0)))
        if not kept:
            return
        self._caption = None
        used = sorted({number for row in kept for number, cell in enumerate(row) if cell})
        # Before it is made: a few far cells in many rows would make a text of gigabytes.
        if len(kept) * len(used) * 3 + self.length > self._most:
            raise self._too_long()
        kept = [[row[number] if number < len(row) else "" for number in used] for row in kept]
        told = " ".join(" ".join(captions).split()) or None
        table = table_text(kept)
        start = self._written(table if told is None else f"{told}\n\n{table}")
        self.blocks.add("table", start, self.length, caption=told and told[:LONGEST_TITLE])

    def document(self, kind: DocumentKind) -> Document:
        self._settle_caption()
        return Document(kind, "".join(self._pieces), tuple(self.blocks.found))

    def _settle_caption(self) -> None:
        """What looked like a caption is that of the table before it, or a paragraph."""
        if self._caption is None:
            return
        text, self._caption = self._caption, None
        found = self.blocks.found
        is_of_table = bool(found) and found[-1].kind == "table" and found[-1].caption is None
        start = self._written(text)
        if is_of_table:
            found[-1] = replace(found[-1], end=self.length, caption=text[:LONGEST_TITLE])
        else:
            self.blocks.add("paragraph", start, self.length)

    def _written(self, text: str, between: str = "\n\n") -> int:
        """Where the text begins."""
        self._settle_caption()
        piece = between + text if self.length else text
        if self.length + len(piece) > self._most:
            raise self._too_long()
        self._pieces.append(piece)
        self.length += len(piece)
        return self.length - len(text)

    def _too_long(self) -> Refused:
        return Refused(f"the text has more than {self._most:,} characters")


def _count(row: Sequence[str]) -> int:
    """How many cells of a row have a text."""
    return sum(map(bool, row))
