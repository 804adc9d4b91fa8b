"""Parts that a node or a tool shows in the chat: `emit_parts`, beside LangGraph's `get_stream_writer`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from langgraph.config import get_config, get_stream_writer
from pydantic import TypeAdapter, ValidationError

from agentic_backend.exact_json import DEEPEST, INEXACT, can_be_kept
from agentic_backend.protocol.parts import (
    CodePart,
    CustomPart,
    GeoPart,
    ImageUrlPart,
    LinkPart,
    Part,
    TextPart,
    Value,
)

__all__ = ["CodePart", "EmittedParts", "GeoPart", "ImageUrlPart", "LinkPart", "TextPart", "emit_parts"]

MOST_PARTS = 64
"""The most parts in one call."""

MOST_BYTES = 2_000_000
"""The most bytes of all of them as JSON: they are stored in one message."""

_SHOWN = (TextPart, CodePart, ImageUrlPart, LinkPart, GeoPart)
_PART: TypeAdapter[Part] = TypeAdapter(Part)


V = TypeVar("V", bound=Value)


@dataclass(frozen=True)
class PartKind(Generic[V]):
    """A form of its own in which an application shows something in the chat, as a custom part of a message.

    Clients know it as `{id}:{name}`, and its schema from `/apps/{id}/openapi.json`. Who does not know it shows its
    words.
    """

    name: str
    """Lower-case letters, digits and `-`."""
    model: type[V]
    """The model of what it has, a subclass of Value."""


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
    _emit("emit_parts", [_read(place, part) for place, part in enumerate(parts)])


def emit_custom_part(name: str, kind: PartKind[Any], value: Value, text: str) -> None:
    """Show a value in a form of an application's, as `emit_parts` shows parts; `name` is what clients know it by.

    Raises ValueError if it is none of the form's, or can't be kept, or if its words say nothing.
    """
    if not isinstance(value, Value) or _named(type(value)) != _named(kind.model):
        raise ValueError(f"show: {name} needs a {kind.model.__name__}")
    if not isinstance(text, str) or not text.strip():
        # Policy modules look at the words: without some, nobody would look at the data.
        raise ValueError(f"show: {name} needs words that say the same")
    try:
        # A value that was made without its checks is no error yet, but a warning. As the schema has it: by alias.
        part = CustomPart(kind=name, data=value.model_dump(mode="json", by_alias=True, warnings="error"), text=text)
        part.model_dump_json()
    except Exception as error:
        # Serializers are the author's code.
        raise ValueError(f"show: {name} can't be shown: {_reason(error)}") from None
    _emit("show", [part])


def _named(model: type) -> tuple[str, str]:
    # A reload imports an author's modules anew, and the application goes on with its own classes.
    return model.__module__, model.__qualname__


def _emit(caller: str, parts: Sequence[Part]) -> None:
    for part in parts:
        if isinstance(part, LinkPart | GeoPart | CustomPart) and not can_be_kept(part.model_dump(mode="json")):
            raise ValueError(f"{caller}: a {part.type} part is nested deeper than {DEEPEST}, or has {INEXACT}")
    size = sum(len(part.model_dump_json().encode()) for part in parts)
    if size > MOST_BYTES:
        raise ValueError(f"{caller}: {size} bytes of parts at once, more than {MOST_BYTES}")
    if parts:
        node = get_config().get("metadata", {}).get("langgraph_node", "")
        get_stream_writer()(EmittedParts(parts, size, node))


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
