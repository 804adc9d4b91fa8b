"""A document is cut into chunks by its structure: what is searched, embedded and cited of it. Pure.

A section that fits is one chunk, with the sections within; small neighbours are joined. A longer one is cut between
paragraphs, items and sentences, a table between rows, code before functions.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from agentic_backend.application import Block, Document
from agentic_backend.applications.retrieval.chunking.code_lines import Scope, code_lines
from agentic_backend.applications.retrieval.chunking.sentences import is_ended, sentence_starts
from agentic_backend.applications.retrieval.chunking.sizes import MOST_CHARACTERS, pieces_of, tokens_in
from agentic_backend.applications.retrieval.chunking.table_rows import table_pieces

ChunkKind = Literal["text", "table", "code"]
CHUNKER = "structure-1"
"""The version that stands in each row, so that a changed chunker cuts again."""
TOKENS = 250
"""The longest chunk."""

# How good it is to cut before a unit of text.
_PARAGRAPH, _TITLE, _ITEM, _SENTENCE, _WITHIN, _NEVER = 1.0, 1.3, 0.9, 0.6, 0.2, 0.0
# Of the longest chunk so much is aimed at, which leaves some choice of where to cut; less is small, and joined.
_FILLED, _SMALL = 0.85, 0.25
# Lines of texts that are wrapped are not so long, so each of these is a paragraph of its own.
_LONG_LINE, _LONGEST_TITLE = 160, 80
_LIST_MARK = re.compile(r"[ \t]*(?:[-*+•–·‣▪]|\d{1,3}[.)])[ \t]+\S")
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document."""

    start: int
    end: int
    """`[start, end)` in characters of the document's text: what a citation highlights."""
    path: tuple[str, ...]
    """The headings that all of it stands below, the outermost first."""
    kind: ChunkKind
    """What most of it is."""
    text: str
    """What is searched and embedded: the span's text, below what it needs to be understood alone, such as the headings
    above it, or the caption and the head of a table of which it has some rows."""


def chunks_of(document: Document, *, tokens: int = TOKENS) -> list[Chunk]:
    """Cut a document into chunks in the order of its text, whose spans have up to `tokens` tokens as `tokens_in` counts
    them; a document that fits is one. What stands above a span's text in `Chunk.text` has about as many more at most.
    Whatever has a letter or a digit is in a chunk. Raises ValueError for fewer than 16 tokens.
    """
    if tokens < 16:
        raise ValueError("chunks have 16 tokens at least")
    return list(_Cutting(document, tokens).chunks())


@dataclass(slots=True)
class _Units:
    """What is not cut: sentences, headings, lines of code. Lists of the same length, so that there is one object for a
    hundred thousand units."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=lambda: [0])
    """The number of tokens before each; one number more."""
    weights: list[float] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    """The number of the block that it is of."""


@dataclass(slots=True)
class _Section:
    first: int
    """The number of its first unit, which is its heading's."""
    body: int
    """That of the first below the heading."""
    level: int
    behind: int = 0
    """The number of the section behind it and all within it."""


class _Cutting:
    def __init__(self, document: Document, most: int) -> None:
        self._text = document.text
        self._most = most
        self._aim = int(most * _FILLED)
        self._least = int(most * _SMALL)
        self._blocks = list(_with_gaps(document))
        self._units = _Units()
        self._scopes: dict[int, Scope] = {}
        """Of units of code, what they stand in."""
        self._sections: list[_Section] = [_Section(0, 0, 0)]
        self._lead = 0
        """The number of tokens of the titles that belong to what follows."""

    def chunks(self) -> Iterator[Chunk]:
        for number in range(len(self._blocks)):
            self._read(number)
        if not self._units.starts:
            return
        sections = self._sections
        sections.append(_Section(len(self._units.starts), len(self._units.starts), 0))
        self._nest()
        number, lead = 0, None
        while number < len(sections) - 1:
            section = sections[number]
            first = section.first if lead is None else lead
            behind = self._joined(first, section.behind)
            if behind > number:
                yield self._chunk(first, sections[behind].first)
                number, lead = behind, None
                continue
            body_end = sections[number + 1].first
            # A small beginning is joined with the first section within.
            small = self._size(first, body_end) < self._least
            behind = self._joined(first, sections[number + 1].behind) if small and number + 2 < len(sections) else 0
            if behind > number:
                yield self._chunk(first, sections[behind].first)
                number, lead = behind, None
            elif section.body == body_end and small:
                number, lead = number + 1, first
            else:
                yield from self._own(first, body_end)
                number, lead = number + 1, None

    def _joined(self, first: int, behind: int) -> int:
        """The number of the section behind those that make one chunk from this unit on; 0 if they are too long."""
        sections = self._sections
        if self._size(first, sections[behind].first) > self._most:
            return 0
        while behind < len(sections) - 1 and self._size(first, sections[behind].first) < self._least:
            further = sections[behind].behind
            if self._size(first, sections[further].first) > self._most:
                break
            behind = further
        return behind

    def _own(self, first: int, end: int) -> Iterator[Chunk]:
        """Chunks of a section's own text, which is too long for one."""
        blocks, unit, begun = self._units.blocks, first, first
        while unit < end:
            if self._blocks[blocks[unit]].kind != "table":
                unit += 1
                continue
            lead = begun
            if self._size(begun, unit) >= self._least:
                yield from self._cut(begun, unit)
                lead = unit
            yield from self._table(lead, unit)
            unit = begun = unit + 1
        yield from self._cut(begun, end)

    def _cut(self, first: int, end: int) -> Iterator[Chunk]:
        """Chunks of about the same size, cut where it is best."""
        weights, most = self._units.weights, self._most
        while first < end and (size := self._size(first, end)) > most:
            aim = size / -(-size // self._aim)
            least, best, best_score, unit = aim * 0.5, first + 1, -9.0, first + 1
            while unit < end and (reached := self._size(first, unit)) <= most:
                if reached >= least:
                    score = weights[unit] - abs(reached - aim) / aim
                    if score >= best_score:
                        best, best_score = unit, score
                elif best_score == -9.0:
                    best = unit
                unit += 1
            yield self._chunk(first, best)
            first = best
        if first < end:
            yield self._chunk(first, end)

    def _table(self, lead: int, table: int) -> Iterator[Chunk]:
        """Chunks of a table; what little stands before it is in the first."""
        units = self._units
        if self._size(lead, table + 1) <= self._most:
            yield self._chunk(lead, table + 1)
            return
        block = self._blocks[units.blocks[table]]
        start, taken = units.starts[lead], self._size(lead, table)
        for piece in table_pieces(self._text, block.start, block.end, block.caption or "", self._most, taken):
            # If the first has no room for what stands before it, that is alone.
            if start < block.start and tokens_in(self._text[piece.start : piece.end]) > self._most - taken:
                yield self._chunk(lead, table)
                start = piece.start
            begun = min(start, piece.start)
            start = block.end
            text = self._text[begun : piece.end]
            above = self._above(block.path, piece.before)
            yield Chunk(begun, piece.end, block.path, "table", above + text)

    def _size(self, first: int, end: int) -> int:
        return self._units.before[end] - self._units.before[first]

    def _chunk(self, first: int, end: int) -> Chunk:
        """Of these units."""
        units, blocks = self._units, self._blocks
        start, behind = units.starts[first], units.ends[end - 1]
        numbers = range(units.blocks[first], units.blocks[end - 1] + 1)
        lengths: dict[ChunkKind, int] = {"text": 0, "table": 0, "code": 0}
        path: tuple[str, ...] | None = None
        level = 0
        for number in numbers:
            block = blocks[number]
            lengths[block.kind if block.kind in ("table", "code") else "text"] += min(block.end, behind) - max(
                block.start, start
            )
            # The headings at its beginning don't stand below themselves; what they are the headings of does.
            if path is None and block.kind == "heading" and (block.level or 1) > level:
                level = block.level or 1
            else:
                path = block.path if path is None else _common(path, block.path)
        above = self._above(blocks[numbers[0]].path, self._scope_text(first))
        text = self._text[start:behind]
        kind = max(lengths, key=lambda each: lengths[each])
        return Chunk(start, behind, blocks[numbers[-1]].path if path is None else path, kind, above + text)

    def _above(self, path: tuple[str, ...], more: str) -> str:
        """What stands before a chunk's own text."""
        shown = path if len(path) <= 4 else (path[0], *path[-3:])
        titles = " > ".join(_clipped(title, 120) for title in shown)
        return (titles + "\n\n" if titles else "") + (more + "\n" if more else "")

    def _scope_text(self, first: int) -> str:
        """The lines that say what a piece of code stands in."""
        lines: list[str] = []
        scope = self._scopes.get(first)
        while scope is not None and len(lines) < 3:
            lines.insert(0, " " * min(scope.indent, 20) + _clipped(self._text[scope.start : scope.end], 120))
            scope = scope.above
        return "\n".join(lines)

    # What units there are

    def _read(self, number: int) -> None:
        block = self._blocks[number]
        if block.kind == "heading":
            first, lead = len(self._units.starts), self._lead
            self._add(number, block.start, block.end, _TITLE)
            self._sections.append(_Section(first, len(self._units.starts), max(1, block.level or 1)))
            self._lead = lead + self._size(first, len(self._units.starts))
        elif block.kind == "table":
            self._add_whole(number, block.start, block.end, tokens_in(self._text[block.start : block.end]), _PARAGRAPH)
            self._lead = 0
        elif block.kind == "code":
            self._read_code(number, block)
        else:
            self._read_prose(number, block)

    def _read_code(self, number: int, block: Block) -> None:
        weight = _NEVER if self._lead else _PARAGRAPH
        whole = block.end - block.start <= MOST_CHARACTERS * self._most and tokens_in(
            self._text[block.start : block.end]
        )
        if whole and whole <= self._most // 2:
            self._add_whole(number, block.start, block.end, whole, weight)
            self._lead = 0
            return
        for line in code_lines(self._text, block.start, block.end):
            first = len(self._units.starts)
            self._add(number, line.start, line.end, weight if line.start == block.start else line.weight)
            if line.above is not None:
                self._scopes[first] = line.above

    def _read_prose(self, number: int, block: Block) -> None:
        text, start, end = self._text, block.start, block.end
        is_item = block.kind == "item"
        weight = _ITEM / (1 + ((block.level or 1) - 1) / 8) if is_item else _PARAGRAPH
        is_title = end - start <= _LONGEST_TITLE and not is_item and not is_ended(text[start:end])
        if self._lead:
            weight = _NEVER
        elif is_title:
            weight = _TITLE
        first = len(self._units.starts)
        begun = start
        for place, further in self._cuts(start, end):
            self._add(number, begun, place, weight)
            begun, weight = place, further
        self._add(number, begun, end, weight)
        if is_title or (end - start <= 4 * _LONGEST_TITLE and text.endswith(":", start, end)):
            self._lead = self._size(first, len(self._units.starts))

    def _cuts(self, start: int, end: int) -> Iterator[tuple[int, float]]:
        """Where a paragraph may be cut, and how good that is."""
        found = dict.fromkeys(sentence_starts(self._text, start, end), _SENTENCE)
        if "\n" in self._text[start:end]:
            found.update(self._line_cuts(start, end))
            return iter(sorted(found.items()))
        return iter(found.items())

    def _line_cuts(self, start: int, end: int) -> Iterator[tuple[int, float]]:
        """Those at ends of lines: where lines are too long to be wrapped, and before the items of a list."""
        text, was_title = self._text, False
        for (first, behind), (following, last) in pairwise(_lines(text, start, end)):
            is_title = behind - first <= _LONGEST_TITLE and not is_ended(text[first:behind])
            if _LIST_MARK.match(text, following, last):
                yield following, _ITEM
            elif behind - first > _LONG_LINE or last - following > _LONG_LINE:
                is_next_title = last - following <= _LONGEST_TITLE and not is_ended(text[following:last])
                yield following, _NEVER if is_title and not was_title else _TITLE if is_next_title else _PARAGRAPH
            was_title = is_title

    def _add(self, number: int, start: int, end: int, weight: float) -> None:
        """Add a unit, or several if it is too long for a chunk."""
        text = self._text
        while end > start and text[end - 1].isspace():
            end -= 1
        while end > start and text[start].isspace():
            start += 1
        if start == end:
            return
        # What follows titles has room for them, so that these are not alone.
        most, self._lead = self._most - min(self._lead, self._least), 0
        if end - start <= MOST_CHARACTERS * most and (length := tokens_in(text[start:end])) <= most:
            self._add_whole(number, start, end, length, weight)
            return
        for first, behind, length in pieces_of(text, start, end, most):
            self._add_whole(number, first, behind, length, weight)
            weight = _WITHIN

    def _add_whole(self, number: int, start: int, end: int, length: int, weight: float) -> None:
        units = self._units
        # What stands between counts too, so that a chunk is not long for all its empty lines.
        between = start - units.ends[-1] if units.ends else 0
        units.starts.append(start)
        units.ends.append(end)
        units.before.append(units.before[-1] + max(length, 1) + between // 2)
        units.weights.append(weight)
        units.blocks.append(number)

    def _nest(self) -> None:
        """Tell each section what is within it."""
        open_sections: list[_Section] = []
        for number, section in enumerate(self._sections):
            while open_sections and (open_sections[-1].level >= section.level or number == len(self._sections) - 1):
                open_sections.pop().behind = number
            open_sections.append(section)


def _with_gaps(document: Document) -> Iterator[Block]:
    """The blocks, and as a paragraph whatever has a letter or a digit and is in none."""
    path: tuple[str, ...] = ()
    place = 0
    for block in document.blocks:
        yield from _gap(document.text, place, block.start, path)
        yield block
        place, path = block.end, block.path
    yield from _gap(document.text, place, len(document.text), path)


def _gap(text: str, start: int, end: int, path: tuple[str, ...]) -> Iterator[Block]:
    if start < end and (found := _WORD.search(text, start, end)):
        yield Block("paragraph", found.start(), end, path)


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The spans of the lines."""
    while start < end:
        behind = text.find("\n", start, end)
        behind = end if behind < 0 else behind
        yield start, behind
        start = behind + 1


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    if one is other or one == other:
        return one
    number = 0
    while number < min(len(one), len(other)) and one[number] == other[number]:
        number += 1
    return one[:number]


def _clipped(text: str, most: int) -> str:
    bare = " ".join(text[: 2 * most].split())
    return bare if len(bare) <= most else bare[:most] + "…"
