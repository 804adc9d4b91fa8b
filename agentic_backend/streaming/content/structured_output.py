"""Structured output: the value in a graph's channel `structured_response`, as a part of the final. Pure functions."""

import json
from typing import Any

from pydantic_core import to_jsonable_python

from agentic_backend.protocol.parts import CodePart, Part, TextPart
from agentic_backend.streaming.content.conversion import bounded, plain

CHANNEL = "structured_response"
"""The channel in which `create_agent(response_format=…)` leaves it."""


def structured_part(value: Any) -> CodePart:
    """`value` (a pydantic model, a dataclass or plain data) as JSON."""
    return CodePart(language="json", code=bounded(json.dumps(_json(value), ensure_ascii=False, indent=2)))


def with_structured(parts: list[Part], value: Any) -> list[Part]:
    """`parts` with the JSON of `value`: in the place of the text that says the same, else after them."""
    code, told = structured_part(value), _json(value)
    if not any(_says(part, told) for part in parts):
        return [*parts, code]
    return [code if _says(part, told) else part for part in parts]


def may_be_structured(first_character: str) -> bool:
    """Whether a text whose first character (empty if it has none yet) is this may be a structured response."""
    return first_character in ("", "{", "[")


def _says(part: Part, told: Any) -> bool:
    if not isinstance(part, TextPart) or not may_be_structured(part.text.lstrip()[:1]):
        return False
    try:
        said = json.loads(part.text)
    except (ValueError, RecursionError):
        return False
    # A schema may add fields that the model left out.
    return bool(said == told or (isinstance(said, dict) and isinstance(told, dict) and said.items() <= told.items()))


def _json(value: Any) -> Any:
    try:
        shown = plain({"value": to_jsonable_python(value, serialize_unknown=True)})
    except (ValueError, TypeError, RecursionError):
        return {"_unreadable": type(value).__name__}
    return shown.get("value", shown)
