"""Markdown as a line of a list shows it: its words without its marks. Pure.

Only what surrounds one place is read, so that a long message costs no more than a short one. A line whose marks have
one of the `kept` words, such as the target of a link, stays as it is.
"""

import re
from collections.abc import Sequence

# Characters that are read before and after the place.
_BEFORE, _AFTER = 400, 800
_DEEPEST = 4

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_LINE_MARK = re.compile(r"\s*(?:>\s*)*(?:#{1,6}\s+|[-*+]\s+(?:\[[ xX]\]\s+)?)?")
_INLINE = re.compile(
    r"(?P<ticks>`{1,3})(?P<code>[^`]+)(?P=ticks)(?!`)"
    r"|!?\[(?P<label>[^\[\]]*)\]\([^()]*(?:\([^()]*\)[^()]*)*\)"
    r"|<(?P<address>(?:https?://|mailto:)[^<>\s]+)>"
    r"|\[\^[^\[\]\s]+\]"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|(?P<stars>\*{1,3})(?=[^\s*])(?P<strong>.{1,200}?)(?<![\s*])(?P=stars)(?!\*)"
    r"|(?<!\w)(?P<bars>_{1,3})(?=[^\s_])(?P<low>.{1,200}?)(?<![\s_])(?P=bars)(?!\w)"
    r"|~~(?=[^\s~])(?P<struck>.{1,200}?)(?<![\s~])~~"
)


def readable(markdown: str, kept: Sequence[str], place: int) -> str:
    """The words around `place`, with `…` where it is cut; what has one of the case-folded words `kept` keeps them."""
    start, end = max(0, place - _BEFORE), place + _AFTER
    if start:
        # From the beginning of a line, if one begins soon.
        start = markdown.find("\n", start, place) + 1 or start
    fence = _fence_at(markdown, start)
    lines = []
    for line in markdown[start:end].splitlines():
        mark = _FENCE.match(line)
        if mark is not None and (not fence or mark[1].startswith(fence)):
            fence, plain = "" if fence else mark[1], ""
        else:
            plain = line if fence else _plain(line)
        lines.append(plain if _has_still(plain, line, kept) else line)
    text = "\n".join(filter(None, lines))
    return f"{'…' if start else ''}{text}{'…' if end < len(markdown) else ''}"


def _fence_at(markdown: str, place: int) -> str:
    """The fence of the block of code that `place` is in; empty if it is in none."""
    fence = ""
    for found in _FENCE.finditer(markdown, 0, place):
        if not fence:
            fence = found[1]
        elif found[1].startswith(fence):
            fence = ""
    return fence


def _plain(line: str) -> str:
    if not line.strip(" \t|:-*_="):
        # A rule, or that below the header of a table.
        return ""
    if line.lstrip().startswith("|"):
        cells = (_words(cell.strip(), 0) for cell in line.strip().strip("|").split("|"))
        return " · ".join(filter(None, cells))
    mark = _LINE_MARK.match(line)
    rest = line[mark.end() :] if mark is not None else line
    return _words(rest.rstrip(" #") if mark is not None and "#" in mark[0] else rest, 0)


def _words(text: str, depth: int) -> str:
    """`text` without the marks in its lines."""

    def said(found: re.Match[str]) -> str:
        marked = next((found[name] for name in ("label", "strong", "low", "struck") if found[name]), None)
        if marked is not None:
            return _words(marked, depth + 1) if depth < _DEEPEST else marked
        return found["code"] or found["address"] or found["escaped"] or ""

    return _INLINE.sub(said, text)


def _has_still(plain: str, line: str, kept: Sequence[str]) -> bool:
    folded, before = plain.casefold(), line.casefold()
    return all(word in folded for word in kept if word in before)
