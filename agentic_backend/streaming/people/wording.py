"""Values of a graph's interrupt as the words of a request. Pure."""

from collections.abc import Mapping
from typing import Any

import orjson

_LONGEST_TEXT = 4_000
# A value that is no text is shown as `value` anyway.
_LONGEST_JSON = 300


def worded(form: Any) -> str:
    """A text as it is, anything else as JSON; cut with `…` if it is too long."""
    is_text = isinstance(form, str)
    text, longest = (form, _LONGEST_TEXT) if is_text else (orjson.dumps(form).decode(), _LONGEST_JSON)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in items(value) if isinstance(item, Mapping)]
