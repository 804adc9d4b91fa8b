"""Splits an answer into its statements: sentences, list items, table rows and blocks of code. Pure.

The answer is Markdown. Headings, rules, the header of a table and its rows with one filled cell state
nothing; neither does a line of bold text that ends with a colon. A line break ends a statement, as the
chat page shows it, unless the next line goes on with a small letter. Takes time that is linear in the text.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
# What stands for a heading; bold text without a colon may be the answer itself.
_LABEL = re.compile(r"\s*(\*\*|__)[^*_\n]{1,200}(?::\1|\1:)\s*$")
_MARKER = re.compile(r"(?:\s*(?:>|[-*+•]\s|\d{1,9}[.)]\s|\[[ xX]\]\s))+")
# "J. Smith", "Dr. Smith", "z. B.", but not "5 m." and "20 °C.".
_ABBREVIATION = re.compile(r"(?:^|(?<!\d)[\s.(-])(?:[^\W\d_]|Dr|Mrs?|Ms|Prof|Nr)$")
# "am 24. Dezember": the months of German, in which a point makes an ordinal number.
_DAY = re.compile(r"(?<!\d)\d{1,2}$")
_MONTH = re.compile(r"(?:Jan|Jän|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)[a-zä]*\b")
# The end of a sentence: its sign, what closes after it, and the marks of sources that belong to it. Where a script puts
# no space between sentences, the sign alone ends one.
_MARKS = r"(?:[ \u00a0]?\[\^?\d{1,3}(?:, ?\d{1,3})*\])*"
_SENTENCE_END = re.compile(
    rf"(?<![.!?…])[.!?…]+[\"')\]}}»”’*_`]*{_MARKS}(?=\s|$)|[。！？｡।؟۔]+[」』）】\"'”’*_]*{_MARKS}|\n"  # noqa: RUF001
)


class Span(NamedTuple):
    """A place in the text. The row of a table is one statement, and so is a block of code."""

    start: int
    end: int
    kind: Literal["text", "row", "code"] = "text"


def statements_of(text: str) -> Iterator[Span]:
    """The statements in their order; each has a letter or a digit."""
    for block in _blocks(text):
        for start, end in _sentences(text, block) if block.kind == "text" else [(block.start, block.end)]:
            statement = text[start:end]
            start, end = end - len(statement.lstrip()), start + len(statement.rstrip())
            if any(map(str.isalnum, text[start:end])):
                yield Span(start, end, block.kind)


def _blocks(text: str) -> Iterator[Span]:
    """The paragraphs, list items, table rows and blocks of code."""
    fence, begun, place = "", 0, 0
    in_table = False
    lines = text.splitlines(keepends=True)
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        start, place = place, place + len(line)
        opening = _FENCE.match(line)
        if fence:
            if opening is not None and opening[1].startswith(fence) and not line.strip().strip(fence[0]):
                yield Span(begun, start, "code")
                fence, begun = "", place
            continue
        in_table = opening is None and "|" in line and (in_table or _is_table_rule(following))
        if in_table:
            yield Span(begun, start)
            if not (_is_table_rule(line) or _is_table_rule(following) or _has_one_cell_filled(line)):
                yield Span(start + len(line) - len(line.lstrip("> \t")), place, "row")
            begun = place
            continue
        marker = _MARKER.match(line)
        states_nothing = opening is not None or _is_heading(line[marker.end() :] if marker else line, following)
        if states_nothing or marker is not None:
            yield Span(begun, start)
            begun = start + marker.end() if marker is not None and not states_nothing else place
        if opening is not None:
            fence = opening[1]
    yield Span(begun, place, "code" if fence else "text")


def _is_heading(line: str, following: str) -> bool:
    """Whether `line`, which may be a rule as well, is a heading by its own marks or by what is below it."""
    is_marked = not line.strip("-*_= \t\r\n") or _HEADING.match(line) is not None or _LABEL.match(line) is not None
    return is_marked or (following.startswith("=") and not following.strip("= \t\r\n"))


def _is_table_rule(line: str) -> bool:
    return "|" in line and "-" in line and not line.strip(" >|:-\t\r\n")


def _has_one_cell_filled(row: str) -> bool:
    """Whether a row of several cells has words in one only, as a heading between rows."""
    cells = row.strip("> \t\r\n").removeprefix("|").removesuffix("|").split("|")
    return len(cells) > 1 and sum(any(map(str.isalnum, cell)) for cell in cells) == 1


def _sentences(text: str, block: Span) -> Iterator[tuple[int, int]]:
    begun = block.start
    for end in _SENTENCE_END.finditer(text, block.start, block.end):
        if not _goes_on(text, end, block.end):
            yield begun, end.end()
            begun = end.end()
    yield begun, block.end


def _goes_on(text: str, end: re.Match[str], block_end: int) -> bool:
    """Whether the sentence goes on after the sign: with a small letter, after an abbreviation, or with a month."""
    if end[0] not in (".", "\n"):
        return False
    rest = text[end.end() : min(block_end, end.end() + 20)].lstrip()
    said = text[max(0, end.start() - 6) : end.start()]
    is_point_within = end[0] == "." and (_ABBREVIATION.search(said) or (_DAY.search(said) and _MONTH.match(rest)))
    return rest[:1].islower() or bool(is_point_within and rest)
