"""Finds texts that are written with escapes (JSON's, HTML's and those of URLs, also within one another) or cut. Pure.

An API may write `secret` as `\\u0073ecret`, `&#115;ecret` or `%73ecret`; a model, a browser or a script reads it as it
is. A library may show both ends of it around an ellipsis. What is found is told by its place in the text as it came, so
that nothing else of the text changes.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from html import unescape
from typing import NamedTuple
from urllib.parse import unquote

LONGEST_ESCAPE = 6
"""The most characters that JSON's escape of one character takes."""

_ROUNDS = 3
"""How often escapes within escapes are read."""
_SIGN = re.compile(r"[\\&%]")
# Runs of one kind count as one escape: a text of nothing else would take long.
_ESCAPE = re.compile(
    r"(?:\\u[0-9a-fA-F]{4})+|(?:\\x[0-9a-fA-F]{2})+|(?:\\[^ux])+|(?:%[0-9a-fA-F]{2})+"
    r"|(?:&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w{2,8});)+",
    re.DOTALL,
)
# Where a long word goes on in the next line, as programs break base64 (RFC 2045, section 6.8).
_WORD = r"[\w.+/=-]"
_BREAK = re.compile(rf"(?:\n(?<={_WORD}{{16}}\n)|\r\n(?<={_WORD}{{16}}\r\n))[ \t]{{0,8}}(?={_WORD}{{4}})", re.ASCII)
# As pydantic, reprlib and many loggers leave out the middle of a text.
_ELLIPSIS = re.compile(r"\.{3,}|…+")
_SHORTEST_END, _SHORTEST_ENDS = 3, 6
_CONTROLS = str.maketrans({"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"})

Span = tuple[int, int]
"""The first character, and the one after the last."""


class _Token(NamedTuple):
    """A run of escapes: where it begins in the text that was read, and where it ends in that and in the text before."""

    begin: int
    end: int
    before: Span


def hidden(text: str, find: Callable[[str], Iterable[Span]], *, over_lines: bool = False) -> list[Span]:
    """Where `find` finds something in `text`, or in what its escapes mean; in order, without overlaps.

    `over_lines`: also in long words that go on in the next line.
    """
    found = list(find(text))
    views = [text]
    while len(views) <= _ROUNDS and _SIGN.search(views[-1]):
        view = _ESCAPE.sub(lambda match: _meaning(match[0]), views[-1])
        if view == views[-1]:
            break
        views.append(view)
        # Places are looked for only where there is something to be found.
        if within := list(find(view)):
            rounds = [_tokens(one) for one in views[:-1]]
            found += (_at_first(span, rounds) for span in within)
    if over_lines and _BREAK.search(views[-1]) and (within := list(find(_BREAK.sub("", views[-1])))):
        rounds = [*map(_tokens, views[:-1]), _breaks(views[-1])]
        found += (_at_first(span, rounds) for span in within)
    return _merged(found)


def replaced(text: str, spans: Iterable[Span], by: str) -> str:
    """`text` with each of `spans`, which are in order and don't overlap, replaced."""
    parts: list[str] = []
    at = 0
    for begin, end in spans:
        parts += (text[at:begin], by)
        at = end
    return "".join((*parts, text[at:])) if parts else text


def shown(forms: Collection[str], text: str) -> Iterator[Span]:
    """Where `text` has one of `forms`, or an ellipsis with its first and last characters, at least six, around it."""
    for form in forms:
        if form in text:
            yield from _all(form, text)
    if "..." not in text and "…" not in text:
        return
    # Most ellipses are beside no part of any form, and one search tells it.
    together = "\n".join(forms)
    for cut in _ELLIPSIS.finditer(text):
        before = text[max(cut.start() - _SHORTEST_END, 0) : cut.start()]
        after = text[cut.end() : cut.end() + _SHORTEST_END]
        if before in together or after in together:
            yield from _ends(cut.span(), forms, text)


def _ends(cut: Span, forms: Collection[str], text: str) -> Iterator[Span]:
    begin, end = cut
    for form in forms:
        head, tail = _head(form, text, begin), _tail(form, text, end)
        if head + tail >= _SHORTEST_ENDS:
            yield begin - head, end + tail


def _head(form: str, text: str, end: int) -> int:
    """How many of its first characters `form` has before `end`; 0 if they are too few."""
    last = text[max(end - _SHORTEST_END, 0) : end]
    at = form.rfind(last) if len(last) == _SHORTEST_END else -1
    while at >= 0:
        length = at + _SHORTEST_END
        if length <= end and text.startswith(form[:length], end - length):
            return length
        at = form.rfind(last, 0, length - 1)
    return 0


def _tail(form: str, text: str, begin: int) -> int:
    """How many of its last characters `form` has from `begin` on; 0 if they are too few."""
    first = text[begin : begin + _SHORTEST_END]
    at = form.find(first) if len(first) == _SHORTEST_END else -1
    while at >= 0:
        if text.startswith(form[at:], begin):
            return len(form) - at
        at = form.find(first, at + 1)
    return 0


def _all(form: str, view: str) -> Iterator[Span]:
    at = view.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = view.find(form, at + len(form))


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    shift = 0
    for match in _ESCAPE.finditer(text):
        begin, length = match.start() - shift, len(_meaning(match[0]))
        shift += match.end() - match.start() - length
        tokens.append(_Token(begin, begin + length, match.span()))
    return tokens


def _breaks(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    shift = 0
    for match in _BREAK.finditer(text):
        begin = match.start() - shift
        shift += match.end() - match.start()
        tokens.append(_Token(begin, begin, match.span()))
    return tokens


def _meaning(escape: str) -> str:
    if escape[0] == "%":
        return unquote(escape, errors="replace")
    if escape[0] == "&":
        return unescape(escape)
    if escape[1] == "u":
        return bytes.fromhex(escape.replace("\\u", "")).decode("utf-16-be", errors="replace")
    if escape[1] == "x":
        return bytes.fromhex(escape.replace("\\x", "")).decode("latin-1")
    return escape[1::2].translate(_CONTROLS)


def _at_first(span: Span, rounds: list[list[_Token]]) -> Span:
    """The span in the text as it came, of a span in the text after the last round."""
    begin, end = span
    for tokens in reversed(rounds):
        begin, end = _before(begin, tokens)[0], _before(end - 1, tokens)[1]
    return begin, end


def _before(index: int, tokens: list[_Token]) -> Span:
    """What one character was read from."""
    nearest = bisect_right(tokens, index, key=lambda token: token.begin) - 1
    if nearest < 0:
        return index, index + 1
    token = tokens[nearest]
    if index < token.end:
        return token.before
    at = token.before[1] + index - token.end
    return at, at + 1


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
