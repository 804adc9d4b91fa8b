"""What clients send is a JSON object: a frame of a socket, the body of a request."""

from typing import Any

import orjson

from agentic_backend.errors import BadFrame


def decode_object(data: str | bytes) -> dict[str, Any]:
    """The JSON object in `data`. Raises BadFrame if it is anything else."""
    try:
        raw = orjson.loads(data)
    except (orjson.JSONDecodeError, RecursionError):
        raise BadFrame("What was sent is not JSON.") from None
    if not isinstance(raw, dict):
        raise BadFrame("What was sent is not a JSON object.")
    return raw
