"""Makes a foreign text a part of a larger Markdown document that it can't leave or change around it. Pure.

A text may leave a fence or an HTML tag open, which would swallow what follows it. So fences are closed, and every `<`
that may begin a tag, a comment or an autolink is escaped, except in code, which is kept as it is. What is code is
decided as CommonMark decides it, where that needs no knowledge of lists and quotes (https://spec.commonmark.org/0.31.2);
a text with fences where it would need that is shown as its source.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from agentic_backend.text.fenced_code import fenced, with_line_feeds

_OPENING = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})")
_ANY_FENCE = re.compile(r"`{3,}|~{3,}")
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])")
_RUN = re.compile(r"\\[\\`]|`+")
_BLANK = re.compile(r"[ \t]*")


class _Unclear(Exception):
    """What is code depends on the lists and quotes around it."""


def contained(text: str) -> str:
    """Markdown that shows `text`, which is Markdown."""
    text = with_line_feeds(text)
    try:
        return "\n".join(_contained_lines(text.split("\n")))
    except _Unclear:
        return fenced(text, "markdown")


def one_line(text: str) -> str:
    """`text` in one line, without any markup of its own."""
    return re.sub(r"([\\`*_\[\]<>|~$&])", r"\\\1", " ".join(text.split()))


def _contained_lines(lines: list[str]) -> Iterator[str]:
    fence: tuple[int, str] | None = None
    paragraph: list[str] = []
    for line in lines:
        if fence is not None:
            yield line
            fence = None if _closes(line, *fence) else fence
        elif (opening := _OPENING.match(line)) is not None:
            # Some parsers take it for the first row of a table.
            if "|" in line:
                raise _Unclear
            yield from _escaped(paragraph)
            paragraph = []
            yield line
            fence = len(opening[1]), opening[2]
        elif _ANY_FENCE.search(line):
            # In a list, in a quote, in indented code, or in a line.
            raise _Unclear
        elif _BLANK.fullmatch(line):
            yield from _escaped(paragraph)
            paragraph = []
            yield ""
        else:
            paragraph.append(line)
    yield from _escaped(paragraph)
    if fence is not None:
        yield " " * fence[0] + fence[1]


def _closes(line: str, indent: int, fence: str) -> bool:
    """Whether the line closes the fence. Raises _Unclear if that depends on whether the fence is in a list."""
    if _BLANK.fullmatch(line):
        return False
    spaces = len(line) - len(line.lstrip(" "))
    run = re.escape(fence[0]) + f"{{{len(fence)},}}[ \t]*"
    closes = re.fullmatch(run, line[spaces:]) is not None
    # In a list, the fence ends before a line that is indented less, and a line that closes it may be indented more.
    if indent and (spaces < indent or (closes and spaces > 3)):
        raise _Unclear
    return closes and spaces <= 3


def _escaped(paragraph: list[str]) -> list[str]:
    """The lines, without markup but in code. If a line has a single backtick, code may go on in the next one."""
    try:
        return [_with_code(line) for line in paragraph]
    except _Unclear:
        return [_MARKUP.sub("&lt;", line) for line in paragraph]


def _with_code(line: str) -> str:
    """The line, without markup but in code. Raises _Unclear if its runs of backticks don't pair up."""
    kept: list[str] = []
    place = 0
    for start, end in _code_spans(line):
        # A `|` would end the cell of a table, and the code with it.
        if "|" in line[start:end]:
            raise _Unclear
        kept += [_MARKUP.sub("&lt;", line[place:start]), line[start:end]]
        place = end
    return "".join([*kept, _MARKUP.sub("&lt;", line[place:])])


def _code_spans(line: str) -> Iterator[tuple[int, int]]:
    runs = [(match.start(), match.end()) for match in re.finditer(r"`+", line)]
    starts: defaultdict[int, list[int]] = defaultdict(list)
    for start, end in runs:
        starts[end - start].append(start)
    place = 0
    while (opening := _RUN.search(line, place)) is not None:
        place = opening.end()
        if opening[0].startswith("\\"):
            if line[place : place + 1] == "`":
                raise _Unclear
            continue
        length = opening.end() - opening.start()
        closings = starts[length]
        following = bisect_right(closings, opening.start())
        if following == len(closings):
            raise _Unclear
        place = closings[following] + length
        yield opening.start(), place
