"""Values that JSON, every store and every client have as they are, so that what is shown is what runs. Pure.

JSON has neither NaN nor infinities (RFC 8259, section 6), BSON's integers have 64 bits, and UTF-8 has no halves of
characters. 1 and 1.0 are the same value, and so are 0 and -0.0 (RFC 8785, section 3.2.2.3; JSON Schema, section 4.2.2):
a client may send back either. Decimals are doubles.
"""

import json
import math
from collections.abc import Iterator
from itertools import chain
from typing import Any, NoReturn

from agentic_backend.text.normal_form import has_halves

_MOST_BITS = 63
_MOST_DIGITS = len(str(2**_MOST_BITS)) + 1
_CONTAINERS = (dict, list)
INEXACT = "NaN, an infinity, an integer beyond 64 bits or half a character"
"""What is not exact, in words."""


class Inexact(ValueError):
    """A number in a JSON text that would be read as another one, or as none."""


def is_exact(scalar: str | float) -> bool:
    """Whether a text, an integer or a float has a JSON form of its own."""
    if isinstance(scalar, str):
        return not has_halves(scalar)
    return math.isfinite(scalar) if isinstance(scalar, float) else scalar.bit_length() <= _MOST_BITS


def shown_number(number: float) -> float | str:
    """An integer or a float as it is shown: what has no JSON form becomes its text, not another value."""
    if is_exact(number):
        return number
    if isinstance(number, float):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return str(number)


DEEPEST = 100
"""JSON parsers fail at a depth of about 200."""


def all_exact(value: Any) -> bool:
    """Whether that is so of all in `value`, which is as parsed from JSON."""
    return all(_all_exact(level) for level in _levels(value))


def depth_of(value: Any) -> int:
    """The nesting depth of objects and lists in a value that is as parsed from JSON."""
    return sum(bool(_of(_CONTAINERS, level)) for level in _levels(value))


def can_be_kept(value: Any) -> bool:
    """Whether every store and client has a value, which is as parsed from JSON, as it is."""
    return depth_of(value) <= DEEPEST and all_exact(value)


def _levels(value: Any) -> Iterator[list[Any]]:
    """The values within `value` by their depth, keys among them: a tenth of the time of a recursion if it is large."""
    level = [value]
    while level:
        yield level
        within = _of(_CONTAINERS, level)
        values = (one.values() for one in within if isinstance(one, dict))
        level = [*chain.from_iterable(within), *chain.from_iterable(values)]


def _all_exact(level: list[Any]) -> bool:
    """`is_exact` of all its texts and numbers at once."""
    integers = _of(int, level)
    return (
        is_exact(max(integers, default=0))
        and is_exact(min(integers, default=0))
        and all(map(math.isfinite, _of(float, level)))
        and is_exact("".join(_of(str, level)))
    )


def _of(kind: type | tuple[type, ...], level: list[Any]) -> list[Any]:
    """The values of this kind in a level. Looks at types first: there are few, while values may be a million."""
    types = {*map(type, level)}
    wanted = {each for each in types if issubclass(each, kind)}
    return level if wanted == types else [one for one in level if type(one) in wanted] if wanted else []


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
