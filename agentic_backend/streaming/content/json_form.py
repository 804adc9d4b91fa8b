"""The JSON form of what a graph shows to a person, of any type, and its cut form if it is too large. Pure.

Authors ask with what they have: pydantic models, dataclasses, messages, dates, bytes, sets.
"""

import base64
import dataclasses
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

import orjson
from pydantic import BaseModel, TypeAdapter

from agentic_backend.exact_json import DEEPEST, is_exact, shown_number
from agentic_backend.text.normal_form import clean

UNREADABLE = "_unreadable"

_MOST_VALUES = 500_000
_DURATION = TypeAdapter(timedelta)


def json_form(value: Any) -> Any:
    """`value` as JSON that every store and client can read.

    A type without a JSON form becomes its name, a number without one its text (`NaN`, all digits). A
    value that contains itself, is nested too deeply or holds too many values becomes `{"_unreadable": …}`.
    """
    return _Walk(_MOST_VALUES).whole(value)


def exact_form(value: Any) -> tuple[Any, bool]:
    """The same, and whether all texts and numbers in it are those of `value`: what isn't shown isn't consented to."""
    walk = _Walk(_MOST_VALUES)
    return walk.whole(value), walk.is_exact


def value_form(value: Any) -> Any:
    """The JSON form of an interrupt's value. A field that is unreadable does not hide the others."""
    form = json_form(value)
    if is_readable(form) or not isinstance(value, Mapping) or len(value) > _MOST_VALUES:
        return form
    # The fields share the bound: each has its part of what those before it left.
    shown, room = {}, _MOST_VALUES
    for place, (name, field) in enumerate(value.items()):
        walk = _Walk(room // (len(value) - place))
        shown[_key(name)] = walk.whole(field)
        room = max(0, room - walk.values)
    return shown


def is_readable(form: Any) -> bool:
    return not (isinstance(form, dict) and UNREADABLE in form)


def cut(form: Any, most_bytes: int) -> Any:
    """`form`, or if its JSON has more than `most_bytes` bytes, the beginning of its text with a note of how much.

    The text is that of a string itself, of anything else its JSON.
    """
    encoded = orjson.dumps(form)
    if len(encoded) <= most_bytes:
        return form
    text = form if isinstance(form, str) else encoded.decode()
    whole = text.encode()
    kept = most_bytes
    while True:
        shown = whole[:kept].decode(errors="ignore")
        note = f"\n[cut: {len(whole) - len(shown.encode())} more bytes left out]"
        # As JSON, a text is longer: each of its quotation marks takes two bytes.
        if kept == 0 or (excess := len(orjson.dumps(shown + note)) - most_bytes) <= 0:
            return shown + note
        kept = max(0, kept - max(excess // 2, 1))


class _Walk:
    """One pass over a value, which counts the `values` that it sees, at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.values = 0
        self.is_exact = True
        """Whether each text and number so far has a form of its own."""
        self._around: set[int] = set()
        """The ids of the containers around the present value."""

    def whole(self, value: Any) -> Any:
        """The form of `value`, or that it has none."""
        try:
            return self.form(value, 0)
        except Exception:
            # An author's type may raise anything when it is read.
            return {UNREADABLE: type(value).__name__}

    def form(self, value: Any, depth: int) -> Any:
        self.values += 1
        if depth > DEEPEST or self.values > self._most:
            raise ValueError
        if value is None or (isinstance(value, bool | str | int | float) and not isinstance(value, Enum)):
            form = _scalar(value)
            self.is_exact = self.is_exact and (form == value if isinstance(value, str | None) else is_exact(value))
            return form
        parts = _parts_of(value)
        if parts is None:
            return self.form(value.value, depth + 1) if isinstance(value, Enum) else _named(value)
        if id(value) in self._around:
            raise ValueError
        self._around.add(id(value))
        if isinstance(parts, Mapping):
            form = {_key(key): self.form(item, depth + 1) for key, item in parts.items()}
            # Of two keys with one form, one hides the other.
            self.is_exact = self.is_exact and len(form) == len(parts) and all(map(_is_exact_key, parts))
        else:
            form = [self.form(item, depth + 1) for item in parts]
        self._around.discard(id(value))
        return sorted(form, key=orjson.dumps) if isinstance(value, set | frozenset) else form


def _parts_of(value: Any) -> Mapping[Any, Any] | Iterator[Any] | None:
    """What `value` consists of; None if it is no container."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return iter(value)
    if isinstance(value, BaseModel):
        return value.model_dump(warnings=False)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        return clean(str(value))
    if isinstance(value, float):
        return shown_number(float(value))
    return value if value is None else shown_number(value)


def _is_exact_key(key: Any) -> bool:
    return not isinstance(key, str) or clean(str(key)) == key


def _named(value: Any) -> Any:
    """A value that is no container and no JSON."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _DURATION.dump_python(value, mode="json")
    if isinstance(value, UUID | Decimal | PurePath):
        return clean(str(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return _text_of(bytes(value))
    return f"<{type(value).__name__}>"


def _text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def _key(key: Any) -> str:
    if isinstance(key, Enum):
        key = key.value
    if isinstance(key, str):
        return clean(key)
    form = _scalar(key) if key is None or isinstance(key, bool | int | float) else str(key)
    return clean(form) if isinstance(form, str) else orjson.dumps(form).decode()
