"""PlainText: a text without the characters that nobody sees, and with wide forms as ASCII.

Characters that people see the same way are compared the same way, and each knows its place in the original.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentic_backend.invisible_characters import IGNORABLE

# The letters, digits and signs of ASCII in their full width, and the dot of Chinese and Japanese.
_WIDE: dict[int, int | str | None] = {**{0xFEE0 + code: code for code in range(0x21, 0x7F)}, 0x3002: ".", 0xFF61: "."}
_HAS_WIDE = re.compile("[\u3002\uff01-\uff5e\uff61]")


@dataclass(frozen=True, slots=True)
class PlainText:
    text: str = field(repr=False)
    places: Sequence[int] = field(repr=False)
    """Where each character of `text` is in the original."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The place in the original of `text[start:end]`, which isn't empty."""
        return self.places[start], self.places[end - 1] + 1


def narrow(text: str) -> str:
    """`text` with wide forms as ASCII; of the same length."""
    return text.translate(_WIDE) if _HAS_WIDE.search(text) else text


def has_invisible(text: str) -> bool:
    return not text.isascii() and IGNORABLE.search(text) is not None


def without_invisible(text: str) -> PlainText:
    places = [place for place, character in enumerate(text) if not IGNORABLE.match(character)]
    return PlainText(IGNORABLE.sub("", text), places)
