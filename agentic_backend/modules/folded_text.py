"""A text as a filter of words reads it: without what makes equal words differ in form.

Compatibility forms are unified (NFKC), case is folded, and characters that nobody sees are left out. Every character
knows its place in the original.
"""

import unicodedata

from agentic_backend.text.invisible_characters import IGNORABLE
from agentic_backend.text.normal_form import normal_form
from agentic_backend.text.plain_text import PlainText

# Accents that form no letter with what they stand on: they strike it through, or are piled up.
_ACCENTS = range(0x300, 0x370)


def fold(text: str) -> PlainText:
    if text.isascii():
        return PlainText(text.lower(), range(len(text)), range(1, len(text) + 1))
    characters: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for start, end in _clusters(text):
        folded = normal_form("NFKC", normal_form("NFKC", text[start:end]).casefold())
        visible = [character for character in folded if _is_read(character)]
        characters += visible
        starts += [start] * len(visible)
        ends += [end] * len(visible)
    return PlainText("".join(characters), starts, ends)


def _is_read(character: str) -> bool:
    return not (
        unicodedata.category(character) == "Cf" or ord(character) in _ACCENTS or IGNORABLE.match(character) is not None
    )


def _clusters(text: str) -> list[tuple[int, int]]:
    """The places of `text`'s characters, each with the combining marks that follow it."""
    starts = [place for place, character in enumerate(text) if not place or not unicodedata.combining(character)]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))
