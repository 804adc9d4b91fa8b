"""The kinds of records that an application declares, checked."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum, StrEnum
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.hosting.declarations import first_broken, listed
from agentic_backend.hosting.declared_calls import is_number
from agentic_backend.records.kinds import Index, Kind, Record, Vectors, Words
from agentic_backend.records.layout import Layout
from agentic_backend.stores.protocol.application_records import INDEXES, UNIQUE_INDEXES

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_MOST_KINDS, _MOST_FIELDS, _MOST_RECORDS = 50, 3, 100_000
_MOST_SEARCHED_FIELDS = 10
_LONGEST_DAYS = 36_500
_INDEXED = (str, int, float, bool, datetime)


def declared_records(application_id: str, kinds: object) -> list[Layout[Any]]:
    """The layouts of the kinds that `Application.records` has. Raises ClassPathError, and what reading them raises."""
    names: list[str] = []
    declared: Sequence[Kind[Any]] = listed("'records' has to be", kinds, Kind, _MOST_KINDS)
    for kind in declared:
        if type(kind.name) is not str or not _NAME.fullmatch(kind.name):
            raise ClassPathError("a kind of records needs a name: lower-case letters, digits and '_', at most 32")
        if kind.name in names:
            _refuse(kind, "another kind has this name")
        names.append(kind.name)
        _check(kind)
    return [Layout(application_id, kind) for kind in declared]


def _check(kind: Kind[Any]) -> None:
    rules = {
        "the model has to be a subclass of Record": isinstance(kind.model, type) and issubclass(kind.model, Record),
        "the owner has to be 'user', 'session' or 'application'": kind.owner in ("user", "session", "application"),
        "'append_only' has to be true or false": type(kind.append_only) is bool,
        "the version has to be a whole number from 1": type(kind.version) is int and 1 <= kind.version < 1_000_000,
        "'upgrades' needs a function for each earlier version": type(kind.upgrades) is dict
        and {*kind.upgrades} == {*range(1, kind.version)}
        and all(callable(each) for each in kind.upgrades.values()),
        f"keep_days has to be more than 0 and at most {_LONGEST_DAYS}": kind.keep_days is None
        or (is_number(kind.keep_days) and 0 < kind.keep_days <= _LONGEST_DAYS),
        f"'most' has to be from 1 to {_MOST_RECORDS}": type(kind.most) is int and 1 <= kind.most <= _MOST_RECORDS,
    }
    if (rule := first_broken(rules)) is not None:
        _refuse(kind, rule)
    _check_indexes(kind)
    _check_group(kind)
    if kind.words is not None:
        _check_words(kind, kind.words)
    if kind.vectors is not None:
        _check_vectors(kind, kind.vectors)


def _check_indexes(kind: Kind[Any]) -> None:
    indexes: object = kind.indexes
    if not isinstance(indexes, Mapping) or not all(type(each) is Index for each in indexes.values()):
        _refuse(kind, "'indexes' has to be indexes by name")
    for unique, most in ((False, INDEXES), (True, UNIQUE_INDEXES)):
        if sum(index.unique is unique for index in kind.indexes.values()) > most:
            _refuse(kind, f"there may be {most} indexes that are {'' if unique else 'not '}unique")
    for name, index in kind.indexes.items():
        if type(name) is not str or not _NAME.fullmatch(name):
            _refuse(kind, "the name of an index has lower-case letters, digits and '_', at most 32")
        _check_index(kind, name, index)


def _check_group(kind: Kind[Any]) -> None:
    if kind.group is None:
        return
    _check_field(kind, "'group'", kind.group, _is_text, "it is no text")
    by_group = (index for index in kind.indexes.values() if index.all_owners and index.fields[0] == kind.group)
    if kind.owner != "user" or not any(by_group):
        _refuse(kind, "a 'group' needs the owner 'user', and an index over all owners that begins with it")


def _check_index(kind: Kind[Any], name: str, index: Index) -> None:
    if type(index.unique) is not bool or type(index.all_owners) is not bool:
        _refuse(kind, f"the index {name!r} needs true or false for 'unique' and 'all_owners'")
    if not 1 <= len(index.fields) <= _MOST_FIELDS or len({*index.fields}) < len(index.fields):
        _refuse(kind, f"the index {name!r} needs 1 to {_MOST_FIELDS} fields")
    for field in index.fields:
        _check_field(kind, f"the index {name!r}", field, _is_indexed, "its type is none of an index")


def _check_words(kind: Kind[Any], words: object) -> None:
    if type(words) is not Words:
        _refuse(kind, "'words' has to be Words")
    _check_searched(kind, "'words'", words, _is_text, "it is no text")
    if words.language is not None:
        _check_field(kind, "'words'", words.language, _is_text, "it is no text")


def _check_vectors(kind: Kind[Any], vectors: object) -> None:
    if type(vectors) is not Vectors:
        _refuse(kind, "'vectors' has to be Vectors")
    _check_searched(kind, "'vectors'", vectors, lambda _: True, "")
    if kind.words is not None and kind.words.within != vectors.within:
        _refuse(kind, "'words' and 'vectors' have to be within the same field")
    try:
        # Now, where others don't wait.
        import agentic_backend.records.vector_index  # noqa: F401
    except ImportError:
        _refuse(kind, "'vectors' needs numpy: install agentic-backend[vectors]")


def _check_searched(
    kind: Kind[Any], what: str, searched: Words | Vectors, is_fit: Callable[[Any], bool], why: str
) -> None:
    fields, within = searched.fields, searched.within
    if not 1 <= len(fields) <= _MOST_SEARCHED_FIELDS or len({*fields}) < len(fields):
        _refuse(kind, f"{what} needs 1 to {_MOST_SEARCHED_FIELDS} fields")
    for field in fields:
        _check_field(kind, what, field, is_fit, why)
    if within is not None:
        _check_field(kind, what, within, _is_indexed, "its type is none of an index")


def _check_field(kind: Kind[Any], what: str, field: object, is_fit: Callable[[Any], bool], why: str) -> None:
    found = kind.model.model_fields.get(field) if type(field) is str else None
    if found is None:
        _refuse(kind, f"{what} has {field!r}, which the model has not")
    if not all(is_fit(member) for member in _members(found.annotation)):
        _refuse(kind, f"{what} can't hold {field!r}: {why}")


def _members(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) in (Union, UnionType):
        for member in get_args(annotation):
            yield from _members(member)
    elif get_origin(annotation) is Literal:
        yield from (type(value) for value in get_args(annotation))
    else:
        yield annotation


def _is_indexed(member: Any) -> bool:
    if isinstance(member, type) and issubclass(member, Enum):
        return all(type(each.value) in (str, int) for each in member)
    return member is NoneType or member in _INDEXED


def _is_text(member: Any) -> bool:
    return member in (NoneType, str) or (isinstance(member, type) and issubclass(member, StrEnum))


def _refuse(kind: Kind[Any], why: str) -> NoReturn:
    raise ClassPathError(f"the kind {kind.name!r} of records: {why}")
