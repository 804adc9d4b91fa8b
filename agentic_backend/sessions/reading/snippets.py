"""Snippets: the piece of a text in which searched words are, cut so that they can be marked."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from agentic_backend.sessions.reading.readable_text import readable

LONGEST = 200
# Characters before the first word that is shown.
_BEFORE = 60

Piece = tuple[str, bool]
"""A piece of a text, and whether it is what was searched for."""


def snippet_of(text: str, words: Sequence[str], *, is_markdown: bool = False) -> list[Piece]:
    """The text around the first of the case-folded `words`, in at most LONGEST characters and one line.

    Of Markdown it has the words, and marks only where they are what was searched for.
    """
    if is_markdown:
        text = readable(text, words, _first(text, words))
    start = max(0, _first(text, words) - _BEFORE)
    if start:
        # Begin with a word, if one begins soon.
        space = text.find(" ", start, start + _BEFORE // 2)
        start = start if space < 0 else space + 1
    window = " ".join(text[start : start + LONGEST].split())
    before, after = "…" if start else "", "…" if len(text) > start + LONGEST else ""
    return marked(f"{before}{window[: LONGEST - len(before) - len(after)].strip()}{after}", words)


def marked(text: str, words: Iterable[str]) -> list[Piece]:
    """The text in pieces: those that are one of the case-folded `words`, and those between."""
    folded = [(letter, place) for place, character in enumerate(text) for letter in character.casefold()]
    letters, hits = "".join(letter for letter, _ in folded), set[int]()
    for word in filter(None, words):
        start = letters.find(word)
        while start >= 0:
            hits.update(place for _, place in folded[start : start + len(word)])
            start = letters.find(word, start + len(word))
    pieces = groupby(enumerate(text), key=lambda each: each[0] in hits)
    return [("".join(character for _, character in each), is_hit) for is_hit, each in pieces]


def _first(text: str, words: Iterable[str]) -> int:
    """The place of the first of the words in `text`; 0 if it has none."""
    folded = text.casefold()
    found = min((place for word in words if (place := folded.find(word)) >= 0), default=0)
    if len(folded) == len(text):
        return found
    # Some characters fold into several, none into nothing: by halves, each of which is folded once.
    start, end, left = 0, len(text), found
    while end - start > 1:
        middle = (start + end) // 2
        if (length := len(text[start:middle].casefold())) <= left:
            start, left = middle, left - length
        else:
            end = middle
    return start
