"""Texts that anybody may have written, in a form that can be compared and stored. Pure."""

import re
import unicodedata
from typing import Literal

# A run of marks is put in order in a time that grows with the square of its length, and all threads wait meanwhile.
_PIECES = re.compile(r"\S{1,128}|\s+")
_LONE_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """`text` without lone surrogates, which no UTF-8 can hold: no frame, no store and no span."""
    return text if text.isascii() else _LONE_SURROGATES.sub("\ufffd", text)


def normal_form(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """`text` in the form, in a time that grows with its length: within a word of more than 128 characters, what
    belongs together may stay apart.
    """
    return _PIECES.sub(lambda piece: unicodedata.normalize(form, piece[0]), text)
