"""Texts of models, tools and servers, without what a terminal would obey."""

import re

_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but line feeds and tabs, what changes the direction of writing, and halves of characters."""


def safe(text: str) -> str:
    """`text` with each such character shown as its escape; a carriage return is left out.

    It looks at single characters, so that a sequence cut into two pieces of text does no more than a whole one.
    """
    return _OBEYED.sub(_shown, text)


def safe_line(text: str, longest: int = 200) -> str:
    """The same on one line of at most `longest` characters."""
    line = " ".join(text.split())
    return safe(line if len(line) <= longest else line[: longest - 1] + "…")


def _shown(found: re.Match[str]) -> str:
    sign = found[0]
    if sign == "\r":
        return ""
    return f"\\x{ord(sign):02x}" if ord(sign) < 0x100 else f"\\u{ord(sign):04x}"
