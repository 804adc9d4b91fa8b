"""Reads the arguments of a tool's call that are still arriving, in a time that grows with their length.

LangChain reads each piece of them anew, and one that is no JSON as often as it has characters, each time a character
less: a piece of 64 KiB keeps the event loop for a minute. Its own reader still reads what is short.
"""

import json
from typing import Any

from langchain_core.messages import ai
from langchain_core.utils.json import parse_partial_json
from pydantic_core import from_json

_SHORT = 256


def read_in_linear_time() -> None:
    """Have LangChain's messages use this reader, in all of this process."""
    ai.parse_partial_json = partial_json  # type: ignore[attr-defined]


def partial_json(s: str, *, strict: bool = False) -> Any:
    """As LangChain's: the value of JSON that may end too early. Raises json.JSONDecodeError where it is none."""
    if len(s) <= _SHORT:
        return parse_partial_json(s, strict=strict)
    try:
        return json.loads(s, strict=strict)
    except json.JSONDecodeError:
        pass
    except RecursionError as error:
        raise json.JSONDecodeError("nested too deep", "", 0) from error
    try:
        return from_json(s, allow_partial="trailing-strings")
    except ValueError as error:
        raise json.JSONDecodeError("no JSON", "", 0) from error
