"""Markdown, read as it is: its headings, paragraphs, items, tables and code are found line by line.

It knows what structure needs of CommonMark and of GitHub's tables, in linear time, and no inline marks.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from agentic_backend.extraction.document import Block, BlockKind, Document, is_caption
from agentic_backend.extraction.writing import LONGEST_TITLE, Blocks

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r"([ \t>]*)(`{3,}|~{3,})[ \t]*([^\s`{]*)")
_ITEM = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+\S")
_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_BREAK = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_LONGEST_LINE = 10_000


class _Line(NamedTuple):
    start: int
    end: int
    text: str


def read_markdown(text: str) -> Document:
    return Document("markdown", text, tuple(_Reading(text).blocks()))


class _Reading:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = _lines_of(text)
        self._blocks = Blocks()
        self._open: list[_Line] = []
        """The lines of the paragraph or item that is being read."""
        self._item_level: int | None = None
        """Of the item that is being read; None in a paragraph."""

    def blocks(self) -> Sequence[Block]:
        number = self._front_matter()
        while number < len(self._lines):
            number = self._next(number)
        self._close()
        return self._blocks.found

    def _front_matter(self) -> int:
        """The line behind the settings at the beginning, if there are any."""
        if self._lines and self._lines[0].text.rstrip() == "---":
            for number, line in enumerate(self._lines[1:200], start=1):
                if line.text.rstrip() in ("---", "..."):
                    self._blocks.add("code", self._lines[0].start, line.end, language="yaml")
                    return number + 1
        return 0

    def _next(self, number: int) -> int:
        """Read what begins at this line; return the number of the line behind it."""
        line = self._lines[number]
        # A longer line is text, whatever marks it has.
        text = line.text if len(line.text) <= _LONGEST_LINE else line.text.strip()[:1]
        if not text.strip():
            self._close()
        elif fence := _FENCE.match(text):
            return self._code(number, fence)
        elif heading := _HEADING.match(text):
            self._close()
            self._blocks.add("heading", line.start, line.end, title=_title(heading[2]), level=len(heading[1]))
        elif self._open and self._item_level is None and (underline := _UNDERLINE.match(text)):
            self._underlined(line, 1 if underline[1][0] == "=" else 2)
        elif "|" in text and number + 1 < len(self._lines) and self._is_rule(number + 1):
            return self._table(number)
        elif _BREAK.match(text):
            self._close()
        else:
            self._more(line, text)
        return number + 1

    def _more(self, line: _Line, text: str) -> None:
        """A line of a paragraph or an item."""
        if item := _ITEM.match(text):
            self._close()
            self._item_level = 1 + len(item[1].expandtabs(4)) // 2
        self._open.append(line)

    def _close(self) -> None:
        if self._open:
            level = self._item_level
            kind: BlockKind = "paragraph" if level is None else "item"
            self._blocks.add(kind, self._open[0].start, self._open[-1].end, level=level)
        self._open, self._item_level = [], None

    def _underlined(self, line: _Line, level: int) -> None:
        title = " ".join(each.text.strip() for each in self._open)
        self._blocks.add("heading", self._open[0].start, line.end, title=title, level=level)
        self._open = []

    def _code(self, number: int, fence: re.Match[str]) -> int:
        self._close()
        last = number
        for last in range(number + 1, len(self._lines)):
            text = self._lines[last].text.strip(" \t>")
            if text.startswith(fence[2]) and not text.strip(fence[2][0]):
                break
        language = fence[3].lower() or None
        self._blocks.add("code", self._lines[number].start, self._lines[last].end, language=language)
        return last + 1

    def _is_rule(self, number: int) -> bool:
        text = self._lines[number].text
        return "-" in text and ("|" in text or ":" in text) and len(text) <= _LONGEST_LINE and bool(_RULE.match(text))

    def _table(self, number: int) -> int:
        self._close()
        end = number + 2
        while end < len(self._lines) and "|" in self._lines[end].text:
            end += 1
        start, caption = self._lines[number].start, None
        found = self._blocks.found
        if found and found[-1].kind == "paragraph":
            before = " ".join(self._text[found[-1].start : found[-1].end].split())
            if is_caption(before):
                start, caption = found.pop().start, before[:LONGEST_TITLE]
        self._blocks.add("table", start, self._lines[end - 1].end, caption=caption)
        return end


def _title(text: str | None) -> str:
    """A heading without the marks that may close it."""
    title = (text or "").strip()
    without = title.rstrip("#")
    return without.rstrip() if not without or without[-1] in " \t" else title


def _lines_of(text: str) -> list[_Line]:
    lines, start = [], 0
    for line in text.split("\n"):
        lines.append(_Line(start, start + len(line), line))
        start += len(line) + 1
    return lines
