"""Index terms: texts that sort in any database as the values do that they stand for.

They consist of characters whose order no collation changes among themselves. Values of different types sort by type:
None, truth values, whole numbers, other numbers, times, texts. A term ends with a character that sorts before all
others of a term, so that the terms of several values, one after the other, sort as these do.
"""

import struct
from datetime import UTC, datetime, timedelta
from enum import Enum

from agentic_backend.errors import BadFrame

LONGEST_TEXT_BYTES = 200
"""The longest text that is a value of an index, in bytes of UTF-8."""
AFTER_NONE = "1"
"""Behind the term of None, and before those of all other values."""
_END = "."
_LARGEST = 2**63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def term_of(value: object) -> str:
    """The value's term. Raises BadFrame for a value that no index can hold, and TypeError for one of another type."""
    return _open_term_of(value) + _END


def beginning_of(text: str) -> str:
    """What the terms of all texts that begin so begin with. Raises BadFrame."""
    return _open_term_of(text)


def hexadecimal(text: str) -> str:
    """The text's UTF-8 in hexadecimal digits, which sort as its characters do. Raises BadFrame."""
    try:
        return text.encode().hex()
    except UnicodeEncodeError:
        raise BadFrame("a text is no valid Unicode") from None


def _open_term_of(value: object) -> str:
    """The term without its end."""
    match value:
        case None:
            return "0"
        case bool():
            return f"1{int(value)}"
        case Enum():
            return _open_term_of(value.value)
        case int():
            if not -_LARGEST <= value < _LARGEST:
                raise BadFrame(f"a number of an index has to be from {-_LARGEST} to {_LARGEST - 1}")
            return f"2{value + _LARGEST:016x}"
        case float():
            return f"3{_sorted_bits(value):016x}"
        case datetime():
            at = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return f"4{(at - _EPOCH) // timedelta(microseconds=1) + _LARGEST:016x}"
        case str():
            if len(value.encode(errors="replace")) > LONGEST_TEXT_BYTES:
                raise BadFrame(f"a text of an index may have {LONGEST_TEXT_BYTES} bytes")
            return f"5{hexadecimal(value)}"
    raise TypeError(f"no index holds a value of type {type(value).__name__}")


def _sorted_bits(value: float) -> int:
    """The number's bits, so that they sort as the numbers do."""
    # -0.0 is the same number as 0.0.
    [bits] = struct.unpack(">Q", struct.pack(">d", value + 0.0))
    return int(bits ^ (0xFFFFFFFFFFFFFFFF if bits >> 63 else 1 << 63))
