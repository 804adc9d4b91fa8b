"""PlainText: a text without the characters that nobody sees, and with wide forms as ASCII.

Characters that people see the same way are compared the same way, and each knows its place in the original.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from agentic_backend.text.invisible_characters import IGNORABLE

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
"""In brackets of a pattern, the letters of scripts without spaces between words: Thai to Myanmar, Khmer, kana, Han."""

# The letters, digits and signs of ASCII in their full width, and the dot of Chinese and Japanese.
_WIDE: dict[int, int | str | None] = {**{0xFEE0 + code: code for code in range(0x21, 0x7F)}, 0x3002: ".", 0xFF61: "."}
_HAS_WIDE = re.compile("[\u3002\uff01-\uff5e\uff61]")


@dataclass(frozen=True, slots=True)
class PlainText:
    """A text made of another one: each character knows what it stands for there."""

    text: str = field(repr=False)
    starts: Sequence[int] = field(repr=False)
    """Where each character of `text` begins in the original."""
    ends: Sequence[int] = field(repr=False)

    @classmethod
    def of(cls, text: str) -> Self:
        """`text` as it is."""
        return cls(text, range(len(text)), range(1, len(text) + 1))

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The place in the original of `text[start:end]`, which isn't empty."""
        return self.starts[start], self.ends[end - 1]

    def sub(self, pattern: re.Pattern[str], read: Callable[[re.Match[str]], str]) -> Self:
        """The same with each match of `pattern` as it is read; what it becomes stands for all that was matched."""
        pieces: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        done = 0
        for found in pattern.finditer(self.text):
            start, end = found.span()
            piece = read(found)
            pieces += self.text[done:start], piece
            starts += [*self.starts[done:start], *[self.starts[start]] * len(piece)]
            ends += [*self.ends[done:start], *[self.ends[end - 1]] * len(piece)]
            done = end
        if not done:
            return self
        text = "".join([*pieces, self.text[done:]])
        return type(self)(text, [*starts, *self.starts[done:]], [*ends, *self.ends[done:]])


def narrow(text: str) -> str:
    """`text` with wide forms as ASCII; of the same length."""
    return text.translate(_WIDE) if _HAS_WIDE.search(text) else text


def without_invisible(text: str) -> PlainText:
    return PlainText.of(text).sub(IGNORABLE, lambda _: "")
