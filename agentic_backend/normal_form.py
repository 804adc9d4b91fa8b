"""The normal forms of Unicode for texts that anybody may have written. Pure."""

import re
import unicodedata
from typing import Literal

# A run of marks is put in order in a time that grows with the square of its length, and all threads wait meanwhile.
_PIECES = re.compile(r"\S{1,128}|\s+")


def normal_form(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """`text` in the form, in a time that grows with its length: within a word of more than 128 characters, what
    belongs together may stay apart.
    """
    return _PIECES.sub(lambda piece: unicodedata.normalize(form, piece[0]), text)
