"""Texts of models, tools and servers, without what a terminal would obey."""

import re

from agentic_backend.text.invisible_characters import OBEYED, as_code


def safe(text: str) -> str:
    """`text` with each such character shown as its code; a carriage return is left out.

    It looks at single characters, so that a sequence cut into two pieces of text does no more than a whole one.
    """
    return OBEYED.sub(_shown, text)


def safe_line(text: str, longest: int = 200) -> str:
    """The same on one line of at most `longest` characters."""
    line = " ".join(text.split())
    return safe(line if len(line) <= longest else line[: longest - 1] + "…")


def _shown(found: re.Match[str]) -> str:
    return "" if found[0] == "\r" else as_code(found)
