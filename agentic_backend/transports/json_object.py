"""What clients send is a JSON object: a frame of a socket, the body of a request."""

import json
import re
from typing import Any

import orjson

from agentic_backend.config.json_bounds import MOST_VALUES, has_too_many_values
from agentic_backend.errors import BadFrame

_LONG_NUMBER = re.compile(rb"\d{19}")


def decode_object(data: str | bytes) -> dict[str, Any]:
    """The JSON object in `data`, with each integer as it was sent.

    Raises BadFrame if it is anything else, or has more than MOST_VALUES values.
    """
    try:
        data = data if isinstance(data, bytes) else data.encode()
        if has_too_many_values(data):
            raise BadFrame(f"What was sent has more than {MOST_VALUES} values.")
        raw = orjson.loads(data)
        # orjson rounds integers beyond 64 bits to floats. Whoever takes one refuses it by the name of its field.
        if _LONG_NUMBER.search(data):
            raw = json.loads(data)
    except (ValueError, RecursionError):
        raise BadFrame("What was sent is not JSON.") from None
    if not isinstance(raw, dict):
        raise BadFrame("What was sent is not a JSON object.")
    return raw
