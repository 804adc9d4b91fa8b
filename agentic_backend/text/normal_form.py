"""Texts that anybody may have written, in a form that can be compared and stored. Pure."""

import re
import unicodedata
from typing import Literal

# A run of marks is put in order in a time that grows with the square of its length, and all threads wait meanwhile.
_PIECES = re.compile(r"\S{1,128}|\s+")
_HALF = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
# Halves of characters, and controls but tabs, line feeds and carriage returns.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
# Vertical tabs, form feeds (between the pages of a document) and next lines break lines.
_BREAKS = "\x0b\x0c\x85"


def clean(text: str) -> str:
    """`text` as every frame, store, span and provider can hold it: the same object if it is.

    Two halves of a character (UTF-16 surrogates) become the character. A half without the other one, such as a byte
    that is no UTF-8 in the name of a file (PEP 383), and a control character become U+FFFD; one that breaks a line
    becomes a line feed. Tabs, line feeds and carriage returns stay.
    """
    if text.isprintable() or _UNFIT.search(text) is None:
        return text
    return _UNFIT.sub(_fit, _PAIR.sub(_joined, text))


def has_halves(text: str) -> bool:
    """Whether halves of characters are in `text`, which no UTF-8 can hold."""
    return not text.isascii() and _HALF.search(text) is not None


def _fit(found: re.Match[str]) -> str:
    return "\n" if found[0] in _BREAKS else "\ufffd"


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def normal_form(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """`text` in the form, in a time that grows with its length: within a word of more than 128 characters, what
    belongs together may stay apart.
    """
    return _PIECES.sub(lambda piece: unicodedata.normalize(form, piece[0]), text)
