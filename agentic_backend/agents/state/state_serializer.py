"""StateSerializer: writes and reads what is stored of graphs, in LangGraph's form, and builds only named types.

LangGraph's own serializer imports and calls whatever name it reads, so that whoever writes to the database runs code in
the server. This one builds data of Python, messages of LangChain, types of LangGraph, the types that the agent's own
state names (see state_types), and those of the setting `agents.state_types`; anything else is refused, by its name. It
reads neither pickles nor LangChain's JSON. What it could not read it does not write either.
"""

import dataclasses
import importlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import Any, NoReturn

import ormsgpack
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send
from pydantic import BaseModel

from agentic_backend.agents.state.state_types import is_data
from agentic_backend.errors import StateRefused

SETTING = "agents.state_types"

Name = tuple[str, str]
"""A module and a class in it."""
Make = Callable[..., Any]
Resolve = Callable[[Name], Make | None]
"""Gives what builds a type; None to leave the value as it is stored. Raises StateRefused."""


class Unstorable(TypeError):
    """A value has a type that could not be read again; the text names it, and the setting that allows it."""


class StateSerializer(SerializerProtocol):
    def __init__(self, types: Iterable[type] = (), named: Collection[str] = ()) -> None:
        """`types` are those of the agent's state, and read when one is needed first; `named` are further classes, or
        modules with all their classes.
        """
        self._given = types
        self._named = named

    @cached_property
    def _types(self) -> Mapping[Name, Make | None]:
        found: dict[Name, Make | None] = {}
        for cls in self._given:
            name = (cls.__module__, cls.__name__)
            # Two inner classes of one name can't be told apart: what is stored of them is left as it is.
            found[name] = cls if found.get(name, cls) is cls else None
        return found

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Raises Unstorable, and TypeError or ValueError for what can't be serialized."""
        if obj is None or isinstance(obj, bytes | bytearray):
            return _langgraph.dumps_typed(obj)
        data = ormsgpack.packb(obj, default=self._packable, option=jsonplus._option)
        try:
            _Opening(self._resolved, builds=False).opened(data)
        except StateRefused as error:
            raise Unstorable(error.content) from error
        return "msgpack", data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Raises StateRefused for a type that is not allowed, ValueError for what is not of this form."""
        form, packed = data
        if form in _PLAIN_FORMS:
            return _langgraph.loads_typed(data)
        if form != "msgpack":
            raise StateRefused(_OTHER_FORM)
        return _Opening(self._resolved).opened(packed)

    def _packable(self, obj: Any) -> Any:
        if isinstance(obj, Enum) and isinstance(obj, str | int) and not self._allows(type(obj)):
            # It equals its value.
            return obj.value
        return jsonplus._msgpack_default(obj)

    def _allows(self, cls: type) -> bool:
        try:
            self._resolved((cls.__module__, cls.__name__))
        except StateRefused:
            return False
        return True

    def _resolved(self, name: Name) -> Make | None:
        if name in _SAFE:
            return _SAFE[name]
        if name in self._types:
            return self._types[name]
        if name[0] in self._named or ".".join(name) in self._named:
            found = _imported(name)
            if isinstance(found, type) and found.__module__ == name[0] and is_data(found):
                return found
        _refuse(".".join(name))


def plain_values(data: bytes) -> Any:
    """What is packed in the form `msgpack`, with the values of classes in place of their instances."""
    return _Opening(_SAFE.get).opened(data)


def as_plain(value: Any) -> Any:
    """`value` with the values of classes in place of their instances. Raises TypeError and ValueError."""
    form, data = _langgraph.dumps_typed(value)
    return plain_values(data) if form == "msgpack" else value


class _Opening:
    """One reading. Without `builds` it only looks whether all could be built."""

    def __init__(self, resolve: Resolve, *, builds: bool = True) -> None:
        self._resolve = resolve
        self._builds = builds
        self._error: Exception | None = None
        """What stopped it: ormsgpack doesn't say."""
        # The layers of values within values that are being unpacked, and what the inner ones nest.
        self._layers = self._nested = 0

    def opened(self, data: bytes) -> Any:
        try:
            return self._unpacked(data)
        except ValueError:
            if isinstance(self._error, StateRefused):
                raise self._error from None
            raise

    def _unpacked(self, data: bytes) -> Any:
        # ormsgpack bounds how deeply lists nest in each layer, but not in all: they could use up the stack.
        nested = _nesting(data) if self._layers >= _FREE_LAYERS else 0
        if self._nested + nested > _DEEPEST:
            raise StateRefused("The stored state is nested too deeply.")
        self._layers, self._nested = self._layers + 1, self._nested + nested
        try:
            return ormsgpack.unpackb(data, ext_hook=self._hook, option=ormsgpack.OPT_NON_STR_KEYS)
        finally:
            self._layers, self._nested = self._layers - 1, self._nested - nested

    def _hook(self, code: int, data: bytes) -> Any:
        try:
            return self._extension(code, data)
        except Exception as error:
            self._error = self._error or error
            raise

    def _extension(self, code: int, data: bytes) -> Any:
        held = self._unpacked(data)
        if code == jsonplus.EXT_DELTA_SNAPSHOT:
            return _DeltaSnapshot(held) if self._builds else None
        if code == jsonplus.EXT_NUMPY_ARRAY:
            return _array(*held) if self._builds else None
        if code not in _BUILD:
            raise StateRefused(_OTHER_FORM)
        module, name, values, *method = held
        if not all(isinstance(one, str) for one in (module, name, *method)):
            raise StateRefused(_OTHER_FORM)
        make = self._resolve((module, name))
        if make is None:
            return values if self._builds else None
        if code == jsonplus.EXT_METHOD_SINGLE_ARG and (
            method != ["fromisoformat"] or not (isinstance(make, type) and issubclass(make, datetime))
        ):
            _refuse(".".join([module, name, *method]))
        if not self._builds:
            return None
        try:
            return _BUILD[code](make, values)
        except Exception as error:
            raise StateRefused(f"The type '{module}.{name}' can't be made of what is stored of it.") from error


def _nesting(data: bytes) -> int:
    """How deeply lists and mappings nest in this layer."""
    level = [ormsgpack.unpackb(data, ext_hook=lambda code, held: None, option=ormsgpack.OPT_NON_STR_KEYS)]
    depth = -1
    while level:
        inner: list[Any] = []
        for one in level:
            if isinstance(one, Mapping):
                inner += [*one, *one.values()]
            elif isinstance(one, list | tuple):
                inner += one
        level, depth = inner, depth + 1
    return depth


def _imported(name: Name) -> Any:
    try:
        return getattr(importlib.import_module(name[0]), name[1], None)
    except Exception:
        # A setting may name a class, or what is not installed any more.
        return None


def _refuse(name: str) -> NoReturn:
    told = name[:_LONGEST_NAME]
    told = told if told.isprintable() else told.encode("unicode_escape").decode()
    raise StateRefused(
        f"The type '{told}' is not among those that a stored state may hold: the agent's state does not name it, and "
        f"neither does the setting {SETTING}."
    )


def _model(make: Any, values: Mapping[str, Any]) -> Any:
    try:
        return make(**values)
    except Exception:
        # As LangGraph does: a model that was valid may have changed since (see channel_forms).
        if issubclass(make, BaseModel):
            return make.model_construct(**values)
        if hasattr(make, "__fields__"):
            return make.construct(**values)
        raise


def _of_keywords(make: Any, values: Mapping[str, Any]) -> Any:
    try:
        return make(**values)
    except Exception:
        # Its constructor takes not what its fields are, or no longer.
        if not (isinstance(make, type) and dataclasses.is_dataclass(make)):
            raise
        made = object.__new__(make)
        for field in dataclasses.fields(make):
            if field.name in values:
                object.__setattr__(made, field.name, values[field.name])
        return made


def _of_positions(make: Make, values: Collection[Any]) -> Any:
    if make is Send and len(values) > 2:
        node, argument, timeout = values
        return Send(node, argument, timeout=timeout)
    return make(*values)


def _array(dtype: str, shape: Collection[int], order: Any, data: bytes) -> Any:
    try:
        numpy: Any = importlib.import_module("numpy")
        return numpy.frombuffer(data, dtype=numpy.dtype(dtype)).reshape(shape, order=order)
    except Exception as error:
        raise StateRefused("An array can't be made of what is stored of it.") from error


def _safe_types() -> dict[Name, Make]:
    found: dict[Name, Make] = {}
    for module, name in SAFE_MSGPACK_TYPES:
        # Python 3.13 names the home of paths in another way.
        home: Any = importlib.import_module(module.removesuffix("._local"))
        if hasattr(home, name):
            found[module, name] = getattr(home, name)
    # The flag has it print the pattern.
    found["re", "compile"] = lambda pattern, flags=0: re.compile(pattern, flags & ~re.DEBUG)
    return found


_OTHER_FORM = "The stored state is of a form that is not read."
_LONGEST_NAME = 200
# Each layer may nest 1024 lists, of which the stack of a thread holds some 14,000.
_FREE_LAYERS, _DEEPEST = 4, 1024
_PLAIN_FORMS = ("null", "bytes", "bytearray")
_BUILD: Mapping[int, Callable[[Any, Any], Any]] = {
    jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG: lambda make, value: make(value),
    jsonplus.EXT_CONSTRUCTOR_POS_ARGS: _of_positions,
    jsonplus.EXT_CONSTRUCTOR_KW_ARGS: _of_keywords,
    jsonplus.EXT_METHOD_SINGLE_ARG: lambda make, value: make.fromisoformat(value),
    jsonplus.EXT_PYDANTIC_V1: _model,
    jsonplus.EXT_PYDANTIC_V2: _model,
}
_SAFE = _safe_types()
# It only writes, and reads what has no types.
_langgraph = JsonPlusSerializer(allowed_msgpack_modules=None)

serializer = StateSerializer()
"""For what no agent's types are in: what packed values are packed in."""
