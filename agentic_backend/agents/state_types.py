"""The types that a graph's own state names: what may be built again from what is stored of it.

These are the classes in the annotations of its schemas and channels, also within other types, and those of structured
output. A class that only holds data counts; of one that an author has defined, its subclasses count too.
"""

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import FunctionType
from typing import Any, get_args, get_type_hints

from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain_core.runnables import Runnable
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from pydantic import BaseModel

from agentic_backend.agents.channel_forms import Graph

# What everybody's classes derive from: a state that names one of these names no class of its author's.
_FOUNDATIONS = sys.stdlib_module_names | {"pydantic", "pydantic_core", "langchain", "langchain_core", "langgraph"}
_DEEPEST_CLOSURE = 4


def types_of(graph: Graph) -> frozenset[type]:
    """The classes that the states of `graph` and of its subgraphs name."""
    graphs = [graph, *(inner for _, inner in graph.get_subgraphs(recurse=True) if isinstance(inner, Pregel))]
    found: set[type] = set()
    seen: list[Any] = []
    for one in graphs:
        for annotation in _annotations_of(one):
            found.update(_classes_in(annotation, seen))
    return frozenset(found)


def is_data(cls: type) -> bool:
    """Whether LangGraph's serializer writes instances of the class, and making one does nothing else."""
    # Of pydantic's both versions, and its secrets.
    is_pydantic = any(hasattr(cls, name) for name in ("model_dump", "__fields__", "get_secret_value"))
    is_tuple = issubclass(cls, tuple) and hasattr(cls, "_asdict")
    # A chain, a model or a tool of LangChain's does more than to hold data.
    return (is_pydantic or is_tuple or dataclasses.is_dataclass(cls) or issubclass(cls, Enum)) and not issubclass(
        cls, Runnable
    )


def _annotations_of(graph: Graph) -> Iterator[Any]:
    for channel in graph.channels.values():
        yield getattr(channel, "ValueType", None)
        yield getattr(channel, "UpdateType", None)
    yield graph.context_schema
    if not isinstance(graph, CompiledStateGraph):
        return
    builder = graph.builder
    yield from builder.schemas
    yield from (builder.state_schema, builder.input_schema, builder.output_schema)
    for node in builder.nodes.values():
        yield node.input_schema
        # LangChain tells the class of structured output to the model's node alone.
        yield from _output_schemas(getattr(node.runnable, "func", None), _DEEPEST_CLOSURE)
    for branches in builder.branches.values():
        yield from (branch.input_schema for branch in branches.values())


def _output_schemas(value: Any, depth: int) -> Iterator[Any]:
    if isinstance(value, AutoStrategy | ProviderStrategy | ToolStrategy):
        yield value.schema
    elif isinstance(value, FunctionType) and depth:
        for cell in value.__closure__ or ():
            try:
                yield from _output_schemas(cell.cell_contents, depth - 1)
            except ValueError:
                # Not assigned yet.
                continue


def _classes_in(annotation: Any, seen: list[Any]) -> Iterator[type]:
    """The classes of data in a type and in the types of their fields, each once."""
    if annotation is None or annotation is Any or any(one is annotation for one in seen):
        return
    seen.append(annotation)
    for part in _parts_of(annotation):
        yield from _classes_in(part, seen)
    if not isinstance(annotation, type):
        return
    if is_data(annotation) and annotation is not BaseModel:
        yield annotation
        if annotation.__module__.partition(".")[0] not in _FOUNDATIONS:
            subclass: Any
            for subclass in annotation.__subclasses__():
                yield from _classes_in(subclass, seen)
    for hint in _fields_of(annotation):
        yield from _classes_in(hint, seen)


def _parts_of(annotation: Any) -> Iterable[Any]:
    """The types that a type is made of: the arguments of a generic, what a new name stands for, and bounds."""
    named = [getattr(annotation, name, None) for name in ("__origin__", "__supertype__", "__value__", "__bound__")]
    # `Literal` and `Annotated` have values among them, which are no types.
    return [*get_args(annotation), *named, *getattr(annotation, "__constraints__", ())]


def _fields_of(cls: type) -> Iterable[Any]:
    if not (is_data(cls) or hasattr(cls, "__total__")):
        return ()
    try:
        hints: Mapping[str, Any] = get_type_hints(cls, localns=dict(vars(cls)), include_extras=True)
    except Exception:
        # A name that only a type checker knows.
        hints = {name: field.annotation for name, field in getattr(cls, "model_fields", {}).items()}
        return hints.values() or getattr(cls, "__annotations__", {}).values()
    return hints.values()
