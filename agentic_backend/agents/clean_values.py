"""The texts that models, tools and nodes bring, cleaned where they come in: what a graph, its store, the wire and the
next model call see are texts that each of them can hold (see `normal_form.clean`).

Models' messages and tools' results are cleaned as they come (see ModelStream and ToolGuard), and what nodes write as
LangGraph takes it. Invariant: the latter holds for every graph that a run reaches, also for those that only the code of
a node knows, so it is set on LangGraph's own class.
"""

import copy
import dataclasses
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from typing import Any

from langgraph.pregel._loop import PregelLoop
from langgraph.types import Send
from pydantic import BaseModel

from agentic_backend.normal_form import clean

# Deeper than any JSON that a store takes.
_DEEPEST = 100
_WITHOUT_TEXT = frozenset({type(None), bool, int, float, bytes})
_put_writes = PregelLoop.put_writes


def clean_writes() -> None:
    """Have LangGraph clean what nodes write: updates of channels, results of tasks, values of interrupts."""
    PregelLoop.put_writes = _put_clean_writes  # type: ignore[method-assign, assignment]


def clean_value(value: Any) -> Any:
    """`value` with clean texts and keys: the same object if it has no others.

    Messages, other pydantic models, dataclasses and `Send`s are changed in place, other containers never. Of keys that
    become the same, the later ones get a U+FFFD and a number. What an author's own container refuses stays as it is.
    """
    if type(value) is str:
        return clean(value)
    return value if type(value) in _WITHOUT_TEXT else _Walk().cleaned(value, 0)


def _put_clean_writes(loop: PregelLoop, task_id: str, writes: Sequence[tuple[str, Any]], **told: Any) -> None:
    # In place, because the task's own are applied.
    kept = writes if isinstance(writes, deque | list) else list(writes)
    for place, (channel, value) in enumerate(kept):
        if (cleaned := clean_value(value)) is not value:
            kept[place] = (channel, cleaned)
    _put_writes(loop, task_id, kept, **told)


class _Walk:
    """One pass over a value."""

    def __init__(self) -> None:
        # The containers so far as they became, by their id: each is seen once, also one that holds itself.
        self._known: dict[int, Any] = {}

    def cleaned(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return value if isinstance(value, Enum) else clean(value)
        if type(value) in _WITHOUT_TEXT or depth > _DEEPEST:
            return value
        if id(value) not in self._known:
            self._known[id(value)] = value
            # An author's class may have another constructor, or properties that fail.
            with suppress(Exception):
                self._known[id(value)] = self._container(value, depth + 1)
        return self._known[id(value)]

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, dict):
            return self._mapping(value, depth)
        if isinstance(value, list | tuple | set | frozenset | deque):
            items = [item if type(item) in _WITHOUT_TEXT else self.cleaned(item, depth) for item in value]
            return value if all(map(_is_same, items, value)) else _like(value, items)
        if isinstance(value, BaseModel):
            for fields in (value.__dict__, value.__pydantic_extra__ or {}):
                fields.update(self._changed(fields, depth))
        elif isinstance(value, Send):
            value.arg = self.cleaned(value.arg, depth)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
            for name, field in self._changed(fields, depth).items():
                # Some are frozen.
                object.__setattr__(value, name, field)
        return value

    def _mapping(self, value: dict[Any, Any], depth: int) -> dict[Any, Any]:
        keys = [self.cleaned(key, depth) if isinstance(key, str | tuple) else key for key in value]
        changed = self._changed(value, depth)
        if not changed and all(map(_is_same, keys, value)):
            return value
        cleaned = copy.copy(value)
        cleaned.clear()
        taken = set(value)
        # How often each clean key has come, so that many of one are told apart in linear time.
        times: dict[str, int] = {}
        for key, (given, item) in zip(keys, value.items(), strict=True):
            clean_key = key
            while key is not given and isinstance(key, str) and key in taken:
                times[clean_key] = times.get(clean_key, 1) + 1
                key = f"{clean_key}\ufffd{times[clean_key]}"
            taken.add(key)
            cleaned[key] = changed.get(given, item)
        return cleaned

    def _changed(self, fields: dict[Any, Any], depth: int) -> dict[Any, Any]:
        """Those of the `fields` that are not clean, cleaned."""
        return {
            name: cleaned
            for name, field in fields.items()
            # Most are numbers or nothing, and most others clean.
            if type(field) not in _WITHOUT_TEXT and (cleaned := self.cleaned(field, depth)) is not field
        }


def _is_same(one: object, other: object) -> bool:
    return one is other


def _like(value: Any, items: list[Any]) -> Any:
    """A container like `value` with these items."""
    if isinstance(value, tuple | frozenset):
        return value._make(items) if hasattr(value, "_make") else type(value)(items)
    # A copy keeps what a subclass has beside its items.
    changed = copy.copy(value)
    changed.clear()
    if isinstance(changed, set):
        changed.update(items)
    else:
        changed.extend(items)
    return changed
