"""Parts that a node or a tool shows in the chat: `emit_parts`, beside LangGraph's `get_stream_writer`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.config import get_config, get_stream_writer
from pydantic import TypeAdapter, ValidationError

from agentic_backend.protocol.parts import CodePart, GeoPart, ImageUrlPart, LinkPart, Part, TextPart

__all__ = ["CodePart", "EmittedParts", "GeoPart", "ImageUrlPart", "LinkPart", "TextPart", "emit_parts"]

MOST_PARTS = 64
"""The most parts in one call."""

MOST_BYTES = 2_000_000
"""The most bytes of all of them as JSON: they are stored in one message."""

_SHOWN = (TextPart, CodePart, ImageUrlPart, LinkPart, GeoPart)
_PART: TypeAdapter[Part] = TypeAdapter(Part)


@dataclass(frozen=True, slots=True)
class EmittedParts:
    """A custom graph event: the parts to show."""

    parts: Sequence[Part]
    size: int
    """Their size as JSON, in bytes."""
    node: str
    """The node of the graph that emits them, or within which its tool or task does."""


def emit_parts(*parts: Part | Mapping[str, Any]) -> None:
    """Show `parts` in the chat and store them; callable where `get_stream_writer` is: in nodes and tools of any graph.

    They are added to the text that this graph is writing or has just written, else they are a message of their own, at
    once; the agent's `stream` holds them back as it does texts. Each is a part of the protocol (text, code, image_url,
    link, geo) or a mapping with its fields. Raises ValueError if one is none of these, or if they are too many or too
    large.
    """
    if len(parts) > MOST_PARTS:
        raise ValueError(f"emit_parts: {len(parts)} parts at once, more than {MOST_PARTS}")
    shown = [_read(place, part) for place, part in enumerate(parts)]
    size = sum(len(part.model_dump_json().encode()) for part in shown)
    if size > MOST_BYTES:
        raise ValueError(f"emit_parts: {size} bytes of parts at once, more than {MOST_BYTES}")
    if shown:
        node = get_config().get("metadata", {}).get("langgraph_node", "")
        get_stream_writer()(EmittedParts(shown, size, node))


def _read(place: int, part: object) -> Part:
    try:
        read = _PART.validate_python(dict(part) if isinstance(part, Mapping) else part)
        # Texts that no UTF-8 frame can hold are found here.
        read.model_dump_json()
    except (ValidationError, ValueError, RecursionError) as error:
        raise ValueError(f"emit_parts: part {place} is no part of a message: {_reason(error)}") from None
    if not isinstance(read, _SHOWN):
        raise ValueError(f"emit_parts: part {place} is a {read.type}, which only the server adds")
    return read


def _reason(error: Exception) -> str:
    """What is wrong, without the values, which may quote a message."""
    if not isinstance(error, ValidationError):
        return type(error).__name__
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(": ".join([*map(str, problem["loc"]), problem["msg"]]) for problem in problems[:3])
