"""Values that JSON, every store and every client have as they are, so that what is shown is what runs. Pure.

JSON has neither NaN nor infinities (RFC 8259, section 6), BSON's integers have 64 bits, and UTF-8 has no halves of
characters. 1 and 1.0 are the same value, and so are 0 and -0.0 (RFC 8785, section 3.2.2.3; JSON Schema, section 4.2.2):
a client may send back either. Decimals are doubles.
"""

import json
import math
from typing import Any, NoReturn

from agentic_backend.text.normal_form import has_halves

_MOST_BITS = 63
_MOST_DIGITS = len(str(2**_MOST_BITS)) + 1
INEXACT = "NaN, an infinity, an integer beyond 64 bits or half a character"
"""What is not exact, in words."""


class Inexact(ValueError):
    """A number in a JSON text that would be read as another one, or as none."""


def is_exact(scalar: str | float) -> bool:
    """Whether a text, an integer or a float has a JSON form of its own."""
    if isinstance(scalar, str):
        return not has_halves(scalar)
    return math.isfinite(scalar) if isinstance(scalar, float) else scalar.bit_length() <= _MOST_BITS


def all_exact(value: Any) -> bool:
    """Whether that is so of all in `value`, which is as parsed from JSON."""
    if isinstance(value, dict):
        return all(map(all_exact, value)) and all(map(all_exact, value.values()))
    if isinstance(value, list):
        return all(map(all_exact, value))
    return not isinstance(value, str | int | float) or is_exact(value)


DEEPEST = 100
"""JSON parsers fail at a depth of about 200."""


def depth_of(value: Any) -> int:
    """The nesting depth of objects and lists in a value that is as parsed from JSON."""
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(depth_of, value.values() if isinstance(value, dict) else value), default=0)


def read_exactly(text: str | bytes) -> Any:
    """The value in a JSON text. Raises Inexact if it has a number that isn't exact, ValueError or RecursionError if it
    is no JSON.
    """
    return json.loads(text, parse_constant=_refuse, parse_int=_integer, parse_float=_float)


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS or not is_exact(number := int(digits)):
        raise Inexact("an integer beyond 64 bits can't be sent as a number; a text can")
    return number


def _float(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise Inexact("a number is too large")
    return number


def _refuse(constant: str) -> NoReturn:
    raise Inexact(f"JSON has no {constant}")
