"""The texts that models, tools and nodes bring, cleaned where they come in: what a graph, its store, the wire and the
next model call see are texts that each of them can hold (see `normal_form.clean`).

Models' messages and tools' results are cleaned as they come (see ModelStream and ToolGuard), and what nodes write as
LangGraph takes it. Invariant: the latter holds for every graph that a run reaches, also for those that only the code of
a node knows, so it is set on LangGraph's own class.
"""

import copy
import dataclasses
from collections import UserDict, UserList, UserString, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from langgraph.pregel._loop import PregelLoop
from langgraph.types import Send
from pydantic import BaseModel, SecretStr

from agentic_backend.text.normal_form import clean

# Deeper than any JSON that a store takes.
_DEEPEST = 100
_WITHOUT_TEXT = frozenset({type(None), bool, int, float, bytes})
_BUILT_IN = frozenset({dict, list, tuple, set, frozenset})
_ITEMS = (list, tuple, set, frozenset, deque, UserList)
_put_writes = PregelLoop.put_writes


def clean_writes() -> None:
    """Have LangGraph clean what nodes write: updates of channels, results of tasks, values of interrupts."""
    PregelLoop.put_writes = _put_clean_writes  # type: ignore[method-assign, assignment]


def clean_value(value: Any) -> Any:
    """`value` with clean texts and keys: the same object if it has no others.

    Messages, other pydantic models, dataclasses and `Send`s are changed in place if they have no hash, other containers
    never. Of keys that become the same, the later ones get a U+FFFD and a number. A container whose class refuses the
    clean items becomes a plain one, a member of an enumeration its value, and what nests deeper than 100 levels the
    name of its class. Objects of other classes stay: no store takes them, and the wire has their names.
    """
    if type(value) is str:
        return clean(value)
    # Nearly all values are clean, and to see that is cheaper than to look for what has to be changed.
    return value if type(value) in _WITHOUT_TEXT or _is_clean(value) else _Walk().cleaned(value, 0)


def _put_clean_writes(loop: PregelLoop, task_id: str, writes: Sequence[tuple[str, Any]], **told: Any) -> None:
    # In place, because the task's own are applied.
    kept = writes if isinstance(writes, deque | list) else list(writes)
    for place, (channel, value) in enumerate(kept):
        if (cleaned := clean_value(value)) is not value:
            kept[place] = (channel, cleaned)
    _put_writes(loop, task_id, kept, **told)


def _is_clean(value: Any) -> bool:
    """Whether all texts in `value` are clean, however deep they lie."""
    waiting = [value]
    # By their ids; kept, because those of objects that are gone come again.
    seen: dict[int, Any] = {}
    while waiting:
        one = waiting.pop()
        kind: Any = type(one)
        if kind is str:
            if not one.isprintable() and clean(one) is not one:
                return False
        elif kind not in _WITHOUT_TEXT and (parts_of := _reader(kind)) is not None and id(one) not in seen:
            seen[id(one)] = one
            # What can't be read can neither be stored nor sent.
            with suppress(Exception):
                waiting += parts_of(one)
    return True


@lru_cache(maxsize=1_024)
def _reader(cls: type) -> Callable[[Any], Iterable[Any]] | None:
    """Gives the parts of an instance of `cls`, of which each may be or have a text; None if it has none."""
    if issubclass(cls, Enum):
        return lambda value: (value.value,)
    if issubclass(cls, str):
        return lambda value: (str.__str__(value),)
    if issubclass(cls, UserString | PurePath | SecretStr):
        return lambda value: (_text_of(value),)
    if issubclass(cls, Mapping):
        return lambda value: [part for entry in value.items() for part in entry]
    if issubclass(cls, _ITEMS):
        return list
    if _is_model(cls):
        return lambda value: [part for fields in _fields_of(value) for part in fields.values()]
    if issubclass(cls, Send):
        return lambda value: (value.arg,)
    if dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls)]
        return lambda value: [getattr(value, name, None) for name in names]
    return None


class _Walk:
    """One pass over a value."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}
        """The containers and what they became so far, by their id: each is seen once, also one that holds itself. They
        are kept, because the ids of those that a class makes as they are read come again.
        """

    def cleaned(self, value: Any, depth: int) -> Any:
        if type(value) in _WITHOUT_TEXT:
            return value
        if isinstance(value, Enum):
            return value if _is_clean(value) else self.cleaned(value.value, depth + 1)
        if isinstance(value, str):
            return clean(value)
        if id(value) not in self._known:
            self._known[id(value)] = value, value
            self._known[id(value)] = value, self._container(value, depth + 1)
        return self._known[id(value)][1]

    def _container(self, value: Any, depth: int) -> Any:
        # An author's class may have properties that fail.
        with suppress(Exception):
            if depth <= _DEEPEST:
                return self._remade(value, depth)
        return value if _is_clean(value) else clean(f"<{type(value).__name__}>")

    def _remade(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, _ITEMS):
            items = [self.cleaned(item, depth) for item in value]
            return value if all(map(_is_same, items, value)) else _like(value, items)
        if isinstance(value, UserString | PurePath | SecretStr):
            text = _text_of(value)
            return value if clean(text) is text else _made(lambda: type(value)(clean(text)), clean(text))
        if _is_model(type(value)):
            changed = [self._changed(fields, depth) for fields in _fields_of(value)]
            value = _changeable(value) if any(changed) else value
            for fields, changes in zip(_fields_of(value), changed, strict=True):
                fields.update(changes)
        elif isinstance(value, Send):
            value.arg = self.cleaned(value.arg, depth)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            given = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
            if changes := self._changed(given, depth):
                value = _changeable(value)
            for name, field in changes.items():
                # Some are frozen.
                object.__setattr__(value, name, field)
        return value

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> Any:
        given = dict(value.items())
        keys = [self.cleaned(key, depth) for key in given]
        changed = self._changed(given, depth)
        if not changed and all(map(_is_same, keys, given)):
            return value
        cleaned: dict[Any, Any] = {}
        taken = set(given)
        # How often each clean key has come, so that many of one are told apart in linear time.
        times: dict[str, int] = {}
        for key, (before, item) in zip(keys, given.items(), strict=True):
            # A plain form may be no key.
            clean_key = key = key if key is before or _has_hash(key) else str(key)
            while key is not before and isinstance(key, str) and key in taken:
                times[clean_key] = times.get(clean_key, 1) + 1
                key = f"{clean_key}\ufffd{times[clean_key]}"
            taken.add(key)
            cleaned[key] = changed.get(before, item)
        return _mapping_like(value, cleaned)

    def _changed(self, fields: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
        """Those of the `fields` that are not clean, cleaned."""
        return {name: cleaned for name, field in fields.items() if (cleaned := self.cleaned(field, depth)) is not field}


def _is_same(one: object, other: object) -> bool:
    return one is other


def _is_model(cls: type) -> bool:
    """Whether it is a model of pydantic's, of either version."""
    return issubclass(cls, BaseModel) or hasattr(cls, "__fields__")


def _fields_of(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return model.__dict__, getattr(model, "__pydantic_extra__", None) or {}


def _text_of(value: Any) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


def _has_hash(value: Any) -> bool:
    with suppress(Exception):
        hash(value)
        return True
    return False


def _changeable(value: Any) -> Any:
    """`value` itself, or a copy if it may be a key: its hash would change."""
    of_class: Any = type(value).__hash__
    return value if of_class in (None, object.__hash__) else copy.copy(value)


def _made(make: Callable[[], Any], plain: Any) -> Any:
    """What `make` makes with an author's class; `plain` if it can't, or leaves a text as it was."""
    with suppress(Exception):
        if _is_clean(made := make()):
            return made
    return plain


def _mapping_like(value: Any, items: dict[Any, Any]) -> Any:
    """A mapping like `value` with these items."""
    if type(value) is dict:
        return items
    if isinstance(value, dict | UserDict):
        return _made(lambda: _refilled(value, "update", items), items)
    # A copy of another may share its items, so that to refill it would empty the original.
    return _made(lambda: _of_class(type(value), items), items)


def _of_class(cls: Any, items: dict[Any, Any]) -> Any:
    made = cls(items)
    # Its constructor may take something else.
    if dict(made.items()) != items:
        raise ValueError
    return made


def _like(value: Any, items: list[Any]) -> Any:
    """A container like `value` with these items."""
    plain = _plain(value, items)
    if type(value) in _BUILT_IN:
        return plain
    if isinstance(value, tuple | frozenset):
        return _made(lambda: value._make(items) if hasattr(value, "_make") else type(value)(items), plain)
    return _made(lambda: _refilled(value, "update" if isinstance(value, set) else "extend", items), plain)


def _plain(value: Any, items: list[Any]) -> Any:
    for make in (tuple, frozenset, set):
        if isinstance(value, make):
            # What has become plain may have no hash.
            return make(items) if make is tuple or all(map(_has_hash, items)) else items
    return items


def _refilled(value: Any, fill: str, items: Any) -> Any:
    """A copy, which keeps what a subclass has beside its items."""
    changed = copy.copy(value)
    changed.clear()
    getattr(changed, fill)(items)
    return changed
