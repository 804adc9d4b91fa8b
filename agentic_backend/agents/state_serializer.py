"""StateSerializer: writes and reads what is stored of graphs, in LangGraph's form, and builds only named types.

LangGraph's own serializer imports and calls whatever name it reads, so that whoever writes to the database runs code in
the server. This one builds data of Python, messages of LangChain, types of LangGraph, the types that the agent's own
state names (see state_types), and those of the setting `agents.state_types`; anything else is refused, by its name. It
reads neither pickles nor LangChain's JSON. What it could not read it does not write either.
"""

import importlib
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, NoReturn

import ormsgpack
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send
from pydantic import BaseModel

from agentic_backend.agents.state_types import is_data
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
        """`types` are those of the agent's state; `named` are further classes, or modules with all their classes."""
        self._types: dict[Name, Make | None] = {}
        for cls in types:
            name = (cls.__module__, cls.__name__)
            # Two inner classes of one name could not be told apart.
            self._types[name] = cls if self._types.get(name, cls) is cls else None
        self._named = named

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Raises Unstorable, and TypeError or ValueError for what can't be serialized."""
        form, data = _langgraph.dumps_typed(obj)
        if form == "msgpack":
            try:
                _Opening(self._resolved, builds_own=False).opened(data)
            except StateRefused as error:
                raise Unstorable(error.content) from error
        return form, data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Raises StateRefused for a type that is not allowed, ValueError for what is not of this form."""
        form, packed = data
        if form in _PLAIN_FORMS:
            return _langgraph.loads_typed(data)
        if form != "msgpack":
            raise StateRefused("The stored state is of a form that is not read.")
        return _Opening(self._resolved).opened(packed)

    def _resolved(self, name: Name) -> Make:
        if name in _SAFE:
            return _SAFE[name]
        if (known := self._types.get(name)) is not None:
            return known
        if name not in self._types and (name[0] in self._named or ".".join(name) in self._named):
            found = getattr(importlib.import_module(name[0]), name[1], None)
            if isinstance(found, type) and found.__module__ == name[0] and is_data(found):
                return found
        _refuse(name)


def plain_values(data: bytes) -> Any:
    """What is packed in the form `msgpack`, with the values of classes in place of their instances."""
    return _Opening(_SAFE.get).opened(data)


def as_plain(value: Any) -> Any:
    """`value` with the values of classes in place of their instances. Raises TypeError and ValueError."""
    form, data = _langgraph.dumps_typed(value)
    return plain_values(data) if form == "msgpack" else value


class _Opening:
    """One reading. `builds_own`: also what is of Python's, LangChain's and LangGraph's types, outside of others."""

    def __init__(self, resolve: Resolve, *, builds_own: bool = True) -> None:
        self._resolve = resolve
        self._builds_own = builds_own
        # What stopped it: ormsgpack doesn't say.
        self._error: Exception | None = None

    def opened(self, data: bytes) -> Any:
        try:
            return self._unpacked(data, self._whole if self._builds_own else self._outermost)
        except ValueError:
            if isinstance(self._error, StateRefused):
                raise self._error from None
            raise

    def _unpacked(self, data: bytes, hook: Callable[[int, bytes], Any]) -> Any:
        return ormsgpack.unpackb(data, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)

    def _whole(self, code: int, data: bytes) -> Any:
        try:
            return self._extension(code, data, builds_own=True)
        except Exception as error:
            self._error = self._error or error
            raise

    def _outermost(self, code: int, data: bytes) -> Any:
        try:
            if code == jsonplus.EXT_DELTA_SNAPSHOT:
                return self._unpacked(data, self._outermost)
            return self._extension(code, data, builds_own=False)
        except Exception as error:
            self._error = self._error or error
            raise

    def _extension(self, code: int, data: bytes, *, builds_own: bool) -> Any:
        held = self._unpacked(data, self._whole)
        if code == jsonplus.EXT_DELTA_SNAPSHOT:
            return _DeltaSnapshot(held)
        if code == jsonplus.EXT_NUMPY_ARRAY:
            return _array(*held)
        if code not in _BUILD:
            raise StateRefused("The stored state is of a form that is not read.")
        module, name, values, *method = held
        if not (isinstance(module, str) and isinstance(name, str)):
            raise StateRefused("The stored state is of a form that is not read.")
        make = self._resolve((module, name))
        if make is None or (not builds_own and (module, name) in _SAFE):
            return values
        if code == jsonplus.EXT_METHOD_SINGLE_ARG and (
            method != ["fromisoformat"] or not (isinstance(make, type) and issubclass(make, datetime))
        ):
            _refuse((module, f"{name}.{method[0] if method else ''}"))
        try:
            return _BUILD[code](make, values)
        except Exception as error:
            raise StateRefused(f"The type '{module}.{name}' can't be made of what is stored of it.") from error


def _refuse(name: Name) -> NoReturn:
    shown = ".".join(name)[:_LONGEST_NAME]
    told = shown if shown.isprintable() else ascii(shown)
    raise StateRefused(
        f"The type '{told}' is not among those that a stored state may hold: the agent's state does not name it, and "
        f"neither does the setting {SETTING}."
    )


def _model(make: Any, values: Mapping[str, Any]) -> Any:
    try:
        return make(**values)
    except Exception:
        # As LangGraph does: a model that was valid may have changed since (see channel_forms).
        return make.model_construct(**values) if issubclass(make, BaseModel) else make.construct(**values)


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
    return found


_LONGEST_NAME = 200
_PLAIN_FORMS = ("null", "bytes", "bytearray")
_BUILD: Mapping[int, Callable[[Any, Any], Any]] = {
    jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG: lambda make, value: make(value),
    jsonplus.EXT_CONSTRUCTOR_POS_ARGS: _of_positions,
    jsonplus.EXT_CONSTRUCTOR_KW_ARGS: lambda make, values: make(**values),
    jsonplus.EXT_METHOD_SINGLE_ARG: lambda make, value: make.fromisoformat(value),
    jsonplus.EXT_PYDANTIC_V1: _model,
    jsonplus.EXT_PYDANTIC_V2: _model,
}
_SAFE = _safe_types()
# It only writes, and reads what has no types.
_langgraph = JsonPlusSerializer(allowed_msgpack_modules=None)

serializer = StateSerializer()
"""For what no agent's types are in: what packed values are packed in."""
