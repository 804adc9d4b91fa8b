"""The forms of a graph's channels: what a kept value is checked against before a run starts from it.

A form describes the type that a graph declares for a channel. It is kept with the channel's value. If the graph
declares another type later, the value is used only if it fits that type. LangGraph itself checks no value, so one that
a graph wrote under the same type is trusted, whatever it is; only the validators of a pydantic state are asked again.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin

from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

Graph = Pregel[Any, Any, Any, Any]

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def forms_of(graph: Graph, names: Iterable[str]) -> dict[str, str]:
    """The forms of the channels with these names."""
    return {name: _form(_type_of(graph, name)) for name in names}


def fits(graph: Graph, name: str, value: Any, form: str | None) -> bool:
    """Whether the channel `name` can start from `value`, which was kept under `form` (None: not known)."""
    type_ = _type_of(graph, name)
    if form is not None and form != _form(type_) and not (_is_whole(value) and _is_of(type_, value)):
        return False
    schema = graph.builder.state_schema if isinstance(graph, CompiledStateGraph) else None
    return not (isinstance(schema, type) and issubclass(schema, BaseModel) and _refuses(schema, name, value))


def _type_of(graph: Graph, name: str) -> Any:
    channel = graph.channels[name]
    return _bare(getattr(channel, "ValueType", Any))


def _bare(type_: Any) -> Any:
    """The type without what annotates it."""
    while get_origin(type_) in (Annotated, NotRequired, Required):
        type_ = get_args(type_)[0]
    return type_


def _form(type_: Any) -> str:
    try:
        return _cached_form(type_)
    except TypeError:
        # Not hashable.
        return _ADDRESS.sub("", repr(type_))


@lru_cache(maxsize=1024)
def _cached_form(type_: Any) -> str:
    """The type's name and, where it has one, a digest of its shape: a class may change its fields."""
    name = _ADDRESS.sub("", repr(type_))
    if "langchain_core.messages" in name:
        # LangChain reads its own earlier messages.
        return name
    try:
        shape = repr(_adapter(type_).json_schema())
    except Exception:
        # A type that pydantic can't describe, such as a class of the author's, is known by its name alone.
        return name
    return f"{name} {hashlib.sha256(shape.encode()).hexdigest()[:16]}"


@lru_cache(maxsize=1024)
def _adapter(type_: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(type_, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:
        # A pydantic model, a dataclass or a TypedDict has a configuration of its own.
        return TypeAdapter(type_)


def _is_of(type_: Any, value: Any) -> bool:
    try:
        _adapter(type_).validate_python(value, strict=True)
    except Exception:
        # Either the value doesn't fit, or nothing can say so: a channel that begins anew harms least.
        return False
    return True


def _is_whole(value: Any) -> bool:
    """Whether all pydantic models in `value` have what their classes require: LangGraph restores them unchecked."""
    if isinstance(value, BaseModel):
        try:
            type(value).model_validate(dict(value))
        except (ValidationError, PydanticCustomError):
            return False
        return True
    if isinstance(value, Mapping):
        return all(map(_is_whole, value.values()))
    return not isinstance(value, list | tuple | set) or all(map(_is_whole, value))


def _refuses(schema: type[BaseModel], name: str, value: Any) -> bool:
    """Whether the field `name` of a pydantic state does not accept `value`: then every run would fail."""
    if name not in schema.model_fields:
        return False
    try:
        schema.__pydantic_validator__.validate_assignment(schema.model_construct(), name, value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        return any(one["loc"][:1] == (name,) and not one["type"].startswith("frozen") for one in problems)
    except Exception:
        # A validator of the whole state fails on an incomplete one.
        return False
    return False
