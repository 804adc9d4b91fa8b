"""Kinds: what an application declares of its records. docs/applications.md shows their use."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict

Owner = Literal["user", "session", "application"]
Vector: TypeAlias = Sequence[float] | bytes
"""Up to 4,096 finite numbers that are not all zero; bytes are numbers of 32 bits, the lowest byte first.

Only their direction counts: what is kept has the length 1.
"""


class Record(BaseModel):
    """The base of an application's records: unknown keys are errors, and so are numbers that are none."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, ser_json_bytes="base64", val_json_bytes="base64"
    )


R = TypeVar("R", bound=Record)


@dataclass(frozen=True, init=False)
class Index:
    """An index over fields of a kind, in the order in which records are found by them.

    The fields are texts of at most 200 bytes, numbers, truth values, times, enumerations or literals, each of which may
    be None.
    """

    fields: tuple[str, ...]
    unique: bool
    """Whether only one record, of its owner's or of all, may have these values; where all are None, many may."""
    all_owners: bool
    """Whether it finds the records of all owners, instead of one owner's."""

    def __init__(self, *fields: str, unique: bool = False, all_owners: bool = False) -> None:
        for name, value in (("fields", fields), ("unique", unique), ("all_owners", all_owners)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, init=False)
class Words:
    """The fields of a kind whose words are searched: texts, or None.

    The records of an owner that have the same value in the field `within`, of a type that an index may have, are
    searched together; without it, all of the owner's. The field `language` has the language code of a record's texts:
    words in English (`en`), French (`fr`) and German (`de`) are found in all their forms, others as they are.
    """

    fields: tuple[str, ...]
    within: str | None
    language: str | None

    def __init__(self, *fields: str, within: str | None = None, language: str | None = None) -> None:
        for name, value in (("fields", fields), ("within", within), ("language", language)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, init=False)
class Vectors:
    """The fields of a kind that the vectors of its records are made of, by whoever writes them.

    A record has one or none. A change that gives none keeps it, if these fields and `within` stay as they are, and else
    leaves the record without. The records of an owner that have the same value in the field `within`, of a type that an
    index may have, are searched together; without it, all of the owner's. Words of the kind are within the same.
    """

    fields: tuple[str, ...]
    within: str | None

    def __init__(self, *fields: str, within: str | None = None) -> None:
        for name, value in (("fields", fields), ("within", within)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Kind(Generic[R]):
    """A kind of records, all of one model. An application declares it in `Application.records`."""

    name: str
    """Lower-case letters, digits and `_`."""
    model: type[R]
    _: KW_ONLY
    owner: Owner = "user"
    """Whose a record is: a user's, a session's, with which it is deleted, or nobody's but the application's."""
    indexes: Mapping[str, Index] = field(default_factory=dict)
    """By name; at most four, and two that are unique."""
    words: Words | None = None
    """What is searched by its words, if anything."""
    vectors: Vectors | None = None
    """What is searched by vectors, if anything; it needs `agentic-backend[vectors]`."""
    group: str | None = None
    """The field with the group that a record is shared with, if any: its members find it by an index over all owners
    that begins with this field."""
    append_only: bool = False
    """Whether a record stays as it is: it can't be changed, and goes only with its owner or its time."""
    version: int = 1
    """Of the model: one more whenever records of an earlier one would no longer be read."""
    upgrades: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = field(default_factory=dict)
    """For each earlier version, what makes a record's fields, as JSON has them, those of the next version."""
    keep_days: float | None = None
    """How long a record is kept after its last write, in days; None: as long as its owner."""
    most: int = 10_000
    """How many records one owner may have, at most 100,000."""
