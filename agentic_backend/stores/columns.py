"""Columns: how each field of a record is stored, by its type, in any database.

A row is flat. A nested value of a record becomes JSON text, which holds any key and any number, or None if it is
empty. Times are RFC 3339 texts in UTC, which keep their microseconds and sort chronologically.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter

from agentic_backend.stores.rows import json_text, rfc3339

_Form = tuple[str, Callable[[Any], Any] | None, Callable[[Any], Any] | None]
"""A column's `type`, `write` and `read`."""

_FLAT: dict[Any, _Form] = {
    str: ("TEXT", None, None),
    int: ("INTEGER", None, None),
    bool: ("INTEGER", None, bool),
    float: ("REAL", None, float),
    bytes: ("BLOB", None, bytes),
    datetime: ("TEXT", rfc3339, datetime.fromisoformat),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column `name`, for the record's `field`, which has a default unless it is `required`.

    `type` is SQLite's. `write` converts the field to the stored value, `read` converts it back; None: no conversion.
    """

    name: str
    field: str
    type: str
    write: Callable[[Any], Any] | None
    read: Callable[[Any], Any] | None
    nullable: bool
    required: bool

    def stored(self, record: object) -> Any:
        value = getattr(record, self.field)
        return value if self.write is None or value is None else self.write(value)


def columns_of(record: type[Any], renamed: Mapping[str, str]) -> Iterable[Column]:
    """A column for each field of `record`; `renamed` maps fields to columns with another name."""
    types, plain_types = get_type_hints(record, include_extras=True), get_type_hints(record)
    for field, required in _fields(record).items():
        flat = _flat(plain_types[field])
        nullable = NoneType in _members(plain_types[field]) or (flat is None and not required)
        form = flat or _nested(types[field], required)
        yield Column(renamed.get(field, field), field, *form, nullable=nullable, required=required)


def _fields(record: type[Any]) -> dict[str, bool]:
    """The record's fields, and whether they have no default."""
    if is_dataclass(record):
        return {each.name: each.default is MISSING and each.default_factory is MISSING for each in fields(record)}
    return {name: field.is_required() for name, field in record.model_fields.items()}


def _members(type_: Any) -> tuple[Any, ...]:
    return get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)


def _flat(type_: Any) -> _Form | None:
    """The form of a type that is stored as a plain value; None for a nested one."""
    [member, *more] = [member for member in _members(type_) if member is not NoneType]
    if more:
        return None
    if get_origin(member) is Literal:
        return "TEXT", None, None
    if isinstance(member, type) and issubclass(member, Enum):
        return "TEXT", lambda value: value.value, {each.value: each for each in member}.__getitem__
    return _FLAT.get(member)


def _nested(type_: Any, required: bool) -> _Form:
    """The form of a type that is stored as JSON; an empty value is None if the record has a default for it."""
    adapter: TypeAdapter[Any] = TypeAdapter(type_)
    return "TEXT", (lambda value: adapter.dump_json(value).decode()) if required else json_text, adapter.validate_json
