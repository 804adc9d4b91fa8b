"""The types that a graph's own state names: what may be built again from what is stored of it.

These are the classes in the annotations of its schemas and channels, also within other types, those of structured
output, and authors' messages. A class that only holds data counts; of one that an author has defined, its subclasses
count too. To make one may run what its author has written: validators, and `__post_init__`.
"""

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from types import FunctionType
from typing import Any, get_args, get_type_hints

from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel
from pydantic import BaseModel

from agentic_backend.agents.state.channel_forms import Graph
from agentic_backend.disclosure.exception_detail import is_authors

# What everybody's classes derive from: a state that names one of these names no class of its author's.
_FOUNDATIONS = sys.stdlib_module_names | {"pydantic", "pydantic_core", "langchain", "langchain_core", "langgraph"}
_DEEPEST = 4


def types_of(graph: Graph) -> frozenset[type]:
    """The classes that the states of `graph` and of its subgraphs name."""
    found: set[type] = set()
    seen: list[Any] = []
    for one in _graphs_of(graph, []):
        for annotation in _annotations_of(one):
            found.update(_classes_in(annotation, seen))
    for message in _messages(BaseMessage):
        found.update(_classes_in(message, seen))
    return frozenset(found)


def is_data(cls: type) -> bool:
    """Whether LangGraph's serializer writes instances of the class, and making one does nothing else."""
    # Of pydantic's both versions, and its secrets.
    is_pydantic = any(hasattr(cls, name) for name in ("model_dump", "__fields__", "get_secret_value"))
    is_tuple = issubclass(cls, tuple) and hasattr(cls, "_asdict")
    is_data = is_pydantic or is_tuple or dataclasses.is_dataclass(cls) or issubclass(cls, Enum)
    # A chain, a model or a tool of LangChain's does more than to hold data, and settings read files.
    return is_data and not issubclass(cls, Runnable) and not hasattr(cls, "settings_customise_sources")


def _graphs_of(graph: Graph, found: list[Graph]) -> list[Graph]:
    """`graph` and those that it runs: its subgraphs, and those that its nodes' and tools' functions hold."""
    if any(graph is one for one in found):
        return found
    found.append(graph)
    inner = [one for _, one in graph.get_subgraphs()]
    for node in graph.nodes.values():
        bound = node.bound
        tools = list(bound.tools_by_name.values()) if isinstance(bound, ToolNode) else []
        for function in _functions_of(bound, *tools):
            inner += [value for value in _held_by(function, _DEEPEST) if isinstance(value, Pregel)]
    for one in inner:
        if isinstance(one, Pregel):
            _graphs_of(one, found)
    return found


def _messages(cls: type[BaseMessage]) -> Iterator[type[BaseMessage]]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _messages(subclass)


def _functions_of(*runnables: Any) -> Iterator[Any]:
    for runnable in runnables:
        yield from (getattr(runnable, name, None) for name in ("func", "afunc", "coroutine"))


def _held_by(function: Any, depth: int) -> Iterator[Any]:
    """What a function holds from outside: the values that it captures, the globals that it names, and theirs."""
    function = getattr(function, "__func__", getattr(function, "func", function))
    if not isinstance(function, FunctionType):
        # An object that can be called.
        yield from getattr(function, "__dict__", {}).values()
        function = type(function).__call__ if callable(function) else None
    if not isinstance(function, FunctionType) or not depth:
        return
    held = [function.__globals__.get(name) for name in function.__code__.co_names]
    for value in (*held, *_captured(function).values()):
        yield value
        if isinstance(value, FunctionType) and is_authors(value.__code__.co_filename):
            yield from _held_by(value, depth - 1)


def _captured(function: FunctionType) -> Mapping[str, Any]:
    """The values in a function's closure, by name."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        # It may not be assigned yet.
        with suppress(ValueError):
            found[name] = cell.cell_contents
    return found


def _annotations_of(graph: Graph) -> Iterator[Any]:
    for channel in graph.channels.values():
        yield getattr(channel, "ValueType", None)
        yield getattr(channel, "UpdateType", None)
    if not isinstance(graph, CompiledStateGraph):
        return
    builder = graph.builder
    yield from builder.schemas
    yield from (builder.state_schema, builder.input_schema, builder.output_schema)
    for node in builder.nodes.values():
        yield node.input_schema
        # LangChain tells the class of structured output to the model's node alone.
        yield from _output_schemas(getattr(node.runnable, "func", None), _DEEPEST)
    for branches in builder.branches.values():
        yield from (branch.input_schema for branch in branches.values())


def _output_schemas(value: Any, depth: int) -> Iterator[Any]:
    if isinstance(value, AutoStrategy | ProviderStrategy | ToolStrategy):
        yield value.schema
    elif isinstance(value, FunctionType) and depth:
        for name, held in _captured(value).items():
            if name == "response_format":
                # LangGraph's prebuilt agent takes a class, also behind a prompt.
                yield from held if isinstance(held, tuple) else (held,)
            yield from _output_schemas(held, depth - 1)


def _classes_in(annotation: Any, seen: list[Any]) -> Iterator[type]:
    """The classes of data in a type and in the types of their fields, each once."""
    if annotation is None or annotation is Any or any(one is annotation for one in seen):
        return
    seen.append(annotation)
    for part in _parts_of(annotation):
        yield from _classes_in(part, seen)
    if not isinstance(annotation, type):
        return
    is_foundation = annotation.__module__.partition(".")[0] in _FOUNDATIONS
    if is_foundation and issubclass(annotation, BaseMessage):
        # The serializer knows all of it.
        return
    if is_data(annotation) and annotation is not BaseModel:
        yield annotation
    if not is_foundation:
        subclass: Any
        for subclass in type.__subclasses__(annotation):
            yield from _classes_in(subclass, seen)
    for hint in _fields_of(annotation):
        yield from _classes_in(hint, seen)


def _parts_of(annotation: Any) -> Iterable[Any]:
    """The types that a type is made of: the arguments of generics, what a new name stands for, and bounds."""
    named = [getattr(annotation, name, None) for name in ("__origin__", "__supertype__", "__value__", "__bound__")]
    several = [getattr(annotation, name, ()) for name in ("__constraints__", "__orig_bases__")]
    # Pydantic makes classes of its generic types.
    generic = getattr(annotation, "__pydantic_generic_metadata__", None) or {}
    # `Literal` and `Annotated` have values among them, which are no types.
    return [*get_args(annotation), *named, *(one for some in several for one in some), *generic.get("args", ())]


def _fields_of(cls: type) -> Iterable[Any]:
    if not (is_data(cls) or hasattr(cls, "__total__")):
        return ()
    # Pydantic knows what the parameters of a generic base stand for.
    known = [field.annotation for field in getattr(cls, "model_fields", {}).values()]
    try:
        return [*known, *get_type_hints(cls, localns=dict(vars(cls)), include_extras=True).values()]
    except Exception:
        # A name that only a type checker knows; the others still count.
        return [*known, *(hint for base in cls.__mro__ for hint in _own_hints(base))]


def _own_hints(cls: type) -> Iterator[Any]:
    for name, hint in vars(cls).get("__annotations__", {}).items():
        alone = type(cls.__name__, (), {"__annotations__": {name: hint}, "__module__": cls.__module__})
        with suppress(Exception):
            yield from get_type_hints(alone, localns=dict(vars(cls)), include_extras=True).values()
