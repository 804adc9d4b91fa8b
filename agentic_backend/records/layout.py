"""A kind's rows: where a record is, and the columns by which it is found."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Generic

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from agentic_backend.errors import BadFrame
from agentic_backend.records.index_terms import LONGEST_TEXT_BYTES, hexadecimal, term_of
from agentic_backend.records.kinds import Index, Kind, R
from agentic_backend.stores.protocol.application_records import ApplicationRecord, Order

LARGEST_BYTES = 256 * 1024
"""The largest record, as JSON."""
_CURSOR: TypeAdapter[tuple[str, str]] = TypeAdapter(tuple[str, str])


class NewerRecord(Exception):
    """A newer version of the application has written the record."""

    def __init__(self, kind: str, version: int, known: int) -> None:
        super().__init__(
            f"A record of kind {kind} has version {version}, and this application knows versions up to {known}: "
            "run the newer one that wrote it, or restore a backup."
        )


@dataclass(frozen=True, slots=True)
class Column:
    """The column of an index."""

    name: Order
    index: Index


@dataclass(frozen=True, slots=True)
class Place:
    """Where an owner's records are in an order: what begins the values of the column `order`, and the ids."""

    order: Order
    beginning: str
    ids: str
    fields: Sequence[str]
    """The fields whose terms come behind the beginning; none in the order of keys."""
    adapters: Mapping[str, TypeAdapter[Any]]

    def terms(self, values: Sequence[object], first: int = 0) -> str:
        """The terms of values of the fields from the `first` on. Raises BadFrame."""
        names = self.fields[first : first + len(values)]
        if len(names) < len(values):
            raise ValueError(f"more values than the index has fields, which are {', '.join(self.fields) or 'none'}")
        return "".join(_term(name, self.adapters[name], value) for name, value in zip(names, values, strict=True))

    def after(self, cursor: str | None) -> tuple[str, str] | None:
        """The place that a cursor names, among these records. Raises BadFrame."""
        if cursor is None:
            return None
        try:
            term, record_id = _CURSOR.validate_json(urlsafe_b64decode(cursor))
        except ValueError:
            raise BadFrame("cursor: not one that a page has given") from None
        return self.beginning + term, self.ids + record_id

    def cursor_behind(self, row: ApplicationRecord) -> str:
        """The cursor behind this record. It tells nothing of whose it is."""
        place = getattr(row, self.order).removeprefix(self.beginning), row.id.removeprefix(self.ids)
        return urlsafe_b64encode(_CURSOR.dump_json(place)).decode()


class Layout(Generic[R]):
    def __init__(self, application_id: str, kind: Kind[R]) -> None:
        self.kind = kind
        self.of_session = kind.owner == "session"
        self.id = f"{application_id}:{kind.name}"
        """The kind's name among those of all applications."""
        self.columns = _columns(kind.indexes)
        """The columns of the indexes, by their names."""
        fields = kind.model.model_fields
        self._adapters: Mapping[str, TypeAdapter[Any]] = {
            name: TypeAdapter[Any](fields[name].annotation or Any)
            for index in kind.indexes.values()
            for name in index.fields
        }
        told = [(name, column.name, column.index.fields, column.index.all_owners) for name, column in self._sorted()]
        self.stamp = sha256(repr(told).encode()).hexdigest()[:16]
        """Changes with the declared indexes."""

    def beginning(self, owner: str | None) -> str:
        """What the ids of the owner's records begin with; None: of all records. Raises BadFrame."""
        return f"{self.id} " if owner is None else f"{self.id} {hexadecimal(owner)} "

    def id_of(self, owner: str, key: str) -> str:
        """Raises BadFrame if the key is empty, or longer than a text of an index."""
        if not 0 < len(key.encode(errors="replace")) <= LONGEST_TEXT_BYTES:
            raise BadFrame(f"a key has to have 1 to {LONGEST_TEXT_BYTES} bytes")
        return self.beginning(owner) + hexadecimal(key)

    def place_in(self, index: str | None, owner: str | None) -> Place:
        """Where the owner's records are in the index, or in the order of keys; None: those of all owners."""
        ids = self.beginning(owner)
        if index is None:
            return Place("id", ids, ids, (), self._adapters)
        column = self.columns[index]
        return Place(column.name, self._beginning_in(index, owner), ids, column.index.fields, self._adapters)

    def _beginning_in(self, index: str, owner: str | None) -> str:
        is_of_all = owner is None or self.columns[index].index.all_owners
        return f"{self.id}.{index} {'' if owner is None or is_of_all else hexadecimal(owner)} "

    def row(
        self,
        value: R,
        owner: str,
        key: str,
        *,
        user_id: str | None,
        session_id: str | None,
        created_at: datetime,
        at: datetime,
        revision: int,
    ) -> ApplicationRecord:
        """Raises BadFrame if the value is too large, or has a value that no index can hold."""
        text = _json_of(value)
        # What is stored is what is read: a model's copy may have been given anything.
        value = self.kind.model.model_validate_json(text)
        record_id = self.id_of(owner, key)
        terms: dict[str, str] = {"unique_1": record_id, "unique_2": record_id}
        for name, column in self.columns.items():
            values = {field: getattr(value, field) for field in column.index.fields}
            # Of those without any value there may be many.
            if not (column.index.unique and all(each is None for each in values.values())):
                own = (_term(field, self._adapters[field], each) for field, each in values.items())
                terms[column.name] = self._beginning_in(name, owner) + "".join(own)
        return ApplicationRecord(
            id=record_id,
            kind=self.id,
            key=key,
            user_id=user_id,
            session_id=session_id,
            created_at=created_at,
            updated_at=at,
            revision=revision,
            version=self.kind.version,
            layout=self.stamp,
            value=from_json(text),
            **terms,
        )

    def value_of(self, row: ApplicationRecord) -> R:
        """The record, brought to the kind's version. Raises NewerRecord, and what an upgrade or the model raises."""
        value: dict[str, Any] = row.value
        if row.version > self.kind.version:
            raise NewerRecord(self.id, row.version, self.kind.version)
        for version in range(row.version, self.kind.version):
            value = self.kind.upgrades[version](value)
        return self.kind.model.model_validate_json(to_json(value))

    def _sorted(self) -> list[tuple[str, Column]]:
        return sorted(self.columns.items())


def _columns(indexes: Mapping[str, Index]) -> dict[str, Column]:
    numbers = {True: iter(("unique_1", "unique_2")), False: iter(("index_1", "index_2", "index_3", "index_4"))}
    columns: dict[str, Column] = {}
    for name, index in indexes.items():
        column: Any = next(numbers[index.unique])
        columns[name] = Column(column, index)
    return columns


def _term(field: str, adapter: TypeAdapter[Any], value: object) -> str:
    """The term of a field's value. Raises BadFrame."""
    try:
        return term_of(adapter.validate_python(value))
    except ValidationError:
        raise BadFrame(f"{field}: not a value of this field") from None
    except BadFrame as error:
        raise BadFrame(f"{field}: {error}") from None


def _json_of(value: R) -> bytes:
    try:
        text = value.model_dump_json().encode()
    except ValueError:
        raise BadFrame("a text is no valid Unicode") from None
    if len(text) > LARGEST_BYTES:
        raise BadFrame(f"the record is larger than {LARGEST_BYTES} bytes")
    return text
