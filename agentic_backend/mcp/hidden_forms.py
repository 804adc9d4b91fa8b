"""Finds texts that are written with escapes: JSON's, HTML's and those of URLs, also within one another. Pure.

An API may write `secret` as `\\u0073ecret`, `&#115;ecret` or `%73ecret`; a model, a browser or a script reads it as it
is. What is found is told by its place in the text as it came, so that nothing else of the text changes.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from html import unescape
from typing import NamedTuple
from urllib.parse import unquote

LONGEST_ESCAPE = 6
"""The most characters that JSON's escape of one character takes."""

_ROUNDS = 3
"""How often escapes within escapes are read."""
_SIGNS = ("\\", "&", "%")
_HALF = r"\\u[dD][{}][0-9a-fA-F]{{2}}"
_ESCAPE = re.compile(
    _HALF.format("89abAB")
    + _HALF.format("c-fC-F")
    + r"|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\[^ux]|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w{2,8});|(?:%[0-9a-fA-F]{2})+",
    re.DOTALL,
)
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

Span = tuple[int, int]
"""The first character, and the one after the last."""


class _Token(NamedTuple):
    """An escape: where it begins in the text that was read, and where it ends in that and in the text before."""

    begin: int
    end: int
    before: Span


def hidden(text: str, forms: Collection[str]) -> list[Span]:
    """Where escapes in `text` hide one of `forms`, in order, without overlaps. Forms without escapes are left out."""
    found: list[Span] = []
    rounds: list[list[_Token]] = []
    view = text
    while len(rounds) < _ROUNDS and any(sign in view for sign in _SIGNS):
        view, tokens = _read(view)
        if not tokens:
            break
        rounds.append(tokens)
        for form in forms:
            found += (_at_first(span, rounds) for span in _all(form, view))
    return _merged(found)


def _all(form: str, view: str) -> Iterator[Span]:
    at = view.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = view.find(form, at + len(form))


def _read(text: str) -> tuple[str, list[_Token]]:
    pieces: list[str] = []
    tokens: list[_Token] = []
    length = last = 0
    for match in _ESCAPE.finditer(text):
        plain, read = text[last : match.start()], _meaning(match[0])
        pieces += (plain, read)
        begin = length + len(plain)
        length, last = begin + len(read), match.end()
        tokens.append(_Token(begin, length, match.span()))
    return "".join([*pieces, text[last:]]), tokens


def _meaning(escape: str) -> str:
    if escape[0] == "%":
        return unquote(escape, errors="replace")
    if escape[0] == "&":
        return unescape(escape)
    if escape[1] in "ux":
        units = bytes.fromhex("".join(part.rjust(4, "0") for part in re.split(r"\\[ux]", escape)[1:]))
        return units.decode("utf-16-be", errors="replace")
    return _CONTROLS.get(escape[1], escape[1])


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
