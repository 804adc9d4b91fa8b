"""Readable forms of the packed states of graphs (see kept_state and exchange_checkpoints), for a person who wants to
know what is kept of them. Nothing is restored from them.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from agentic_backend.agents.state.state_serializer import plain_values

_FORMS = frozenset({"null", "bytes", "bytearray", "msgpack"})
# States hold packed values, which hold others: of an agent, of a channel, of a subgraph.
_DEEPEST = 12


def readable(packed: bytes) -> Any:
    """What is packed, as JSON values; what can't be unpacked is `{"base64": …}`. Takes long: call it in a thread."""
    opened = _opened("msgpack", packed, _DEEPEST)
    return to_jsonable_python(opened, bytes_mode="base64", serialize_unknown=True)


def _opened(form: str, data: bytes, depth: int) -> Any:
    try:
        match form:
            case "null":
                return None
            case "msgpack":
                return _with_opened(plain_values(data), depth)
        return _with_opened(data, depth)
    except Exception:
        # Whatever the bytes are.
        return {"base64": b64encode(data).decode()}


def _with_opened(value: Any, depth: int) -> Any:
    """`value` with what is packed in it, down to `depth`."""
    if depth == 0:
        return value
    match value:
        case (str() as form, bytes() as data) if form in _FORMS:
            return _opened(form, data, depth - 1)
        case Mapping():
            return {str(key): _with_opened(each, depth - 1) for key, each in value.items()}
        case list() | tuple():
            return [_with_opened(each, depth - 1) for each in value]
        case bytes() if value:
            return _opened("msgpack", value, depth - 1)
    return value
