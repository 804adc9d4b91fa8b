"""A kind's rows: where a record is, and the columns by which it is found."""

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Generic

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from agentic_backend.errors import BadFrame
from agentic_backend.records.index_terms import LONGEST_TEXT_BYTES, hexadecimal
from agentic_backend.records.kinds import Index, Kind, R, Vector, Words
from agentic_backend.records.ordered_place import Place, term_in
from agentic_backend.records.searched_place import SearchedPlace
from agentic_backend.records.words import VERSION, counted_words
from agentic_backend.stores.protocol.application_records import ApplicationRecord, Order

LARGEST_BYTES = 256 * 1024
"""The largest record, as JSON."""
# So the stamps of kinds with vectors begin: whatever has been written by another kind may have left an old vector.
_WITH_VECTORS = "v"


class NewerRecord(Exception):
    """A newer version of the application has written the record."""

    def __init__(self, kind: str, version: int, known: int) -> None:
        super().__init__(
            f"A record of kind {kind} has version {version}, and this application knows versions up to {known}: "
            "run the newer one that wrote it, or restore a backup."
        )


class OtherOwner(Exception):
    """A record is of an owner that its kind no longer has."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"There are records of kind {kind} of another owner than it declares: that is another kind.")


class Layout(Generic[R]):
    def __init__(self, application_id: str, kind: Kind[R]) -> None:
        self.kind = kind
        self.of_session = kind.owner == "session"
        self.id = f"{application_id}:{kind.name}"
        """The kind's name among those of all applications."""
        self._columns = _columns(kind.indexes)
        names = {name for index in kind.indexes.values() for name in index.fields}
        self._is_searched = kind.words is not None or kind.vectors is not None
        self._within = next((way.within for way in (kind.words, kind.vectors) if way is not None), None)
        if self._within is not None:
            names.add(self._within)
        self._adapters = {name: _adapter(kind, name) for name in names}
        told = [(name, self._columns[name], *_told(kind, index)) for name, index in sorted(kind.indexes.items())]
        of_words = () if kind.words is None else (_told_of_words(kind, kind.words),)
        of_vectors = () if kind.vectors is None else ("vectors", _told_of_within(kind, kind.vectors.within))
        hashed = sha256(repr((kind.version, kind.owner, told, *of_words, *of_vectors)).encode()).hexdigest()[:16]
        self.stamp = hashed if kind.vectors is None else _WITH_VECTORS + hashed[1:]
        """Changes with the version, the owner, the indexes and what is searched. Terms of another one are in nobody's
        way."""

    def place_in(self, index: str | None, owner: str | None) -> Place:
        """Where the owner's records are in the index, or in the order of keys; None: those of all owners."""
        if index is None:
            return Place("id", self.beginning(owner), {})
        declared = self.kind.indexes[index]
        fields = {name: self._adapters[name] for name in declared.fields}
        return Place(self._columns[index], self._beginning_in(index, owner), fields)

    def beginning(self, owner: str | None) -> str:
        """What the ids of the owner's records begin with; None: of all records. Raises BadFrame."""
        return f"{self.id} " if owner is None else f"{self.id} {hexadecimal(owner)} "

    def id_of(self, owner: str, key: str) -> str:
        """Raises BadFrame if the key is empty, or longer than a text of an index."""
        if not 0 < len(key.encode(errors="replace")) <= LONGEST_TEXT_BYTES:
            raise BadFrame(f"a key has to have 1 to {LONGEST_TEXT_BYTES} bytes")
        return self.beginning(owner) + hexadecimal(key)

    def _beginning_in(self, index: str, owner: str | None) -> str:
        whose = "" if owner is None or self.kind.indexes[index].all_owners else hexadecimal(owner)
        return f"{self.id}.{index} {self.stamp} {whose} "

    def searched_together(self, owner: str, within: object) -> str:
        """What the places of the owner's records that are searched together begin with. Raises BadFrame.

        `within` is their value of the field that says so, None if there is none.
        """
        field = self._within
        value = "" if field is None else term_in(field, self._adapters[field], within)
        return f"{self.id} {self.stamp} {hexadecimal(owner)} {value} "

    def new_row(
        self,
        value: R,
        key: str,
        user_id: str | None,
        session_id: str | None,
        now: datetime,
        vector: bytes | None = None,
    ) -> ApplicationRecord:
        """The row of a new record. Raises BadFrame if the value is too large, or has a value that no index can hold.

        Raises ValueError if it would not be read as it is.
        """
        return self._row(value, key, user_id, session_id, now, now, now, 1, vector)

    def changed_row(
        self, row: ApplicationRecord, value: R, at: datetime, written_at: datetime, vector: bytes | None = None
    ) -> ApplicationRecord:
        """The row with another value, in its next revision, which counts as written `at`. Raises as `new_row` does."""
        revision = row.revision + 1
        return self._row(value, row.key, row.user_id, row.session_id, row.created_at, at, written_at, revision, vector)

    def packed(self, vector: Vector | None) -> bytes | None:
        """What is stored of a vector. Raises ValueError and TypeError as `vectors.packed` does."""
        if vector is None:
            return None
        if self.kind.vectors is None:
            raise ValueError(f"the kind {self.id} declares no vectors")
        # It needs what is installed for those alone who use it.
        from agentic_backend.records.vectors import packed

        return packed(vector)

    def has_vector(self, row: ApplicationRecord) -> bool:
        """Whether the row's vector, if it has one, is of its value."""
        return self.kind.vectors is not None and row.layout.startswith(_WITH_VECTORS)

    def keeps_vector(self, row: ApplicationRecord, value: R) -> bool:
        """Whether the row's vector is also that of this value: what it is made of is the same."""
        if self.kind.vectors is None or not self.has_vector(row):
            return False
        # As it is stored: who gives the value may have changed the one that was read.
        before, parts = self.value_of(row), self.kind.vectors.fields
        names = parts if self._within is None else (*parts, self._within)
        return all(getattr(before, name) == getattr(value, name) for name in names)

    def _row(
        self,
        value: R,
        key: str,
        user_id: str | None,
        session_id: str | None,
        created_at: datetime,
        at: datetime,
        written_at: datetime,
        revision: int,
        vector: bytes | None,
    ) -> ApplicationRecord:
        owner = session_id or user_id or ""
        stored = self._stored(value)
        record_id = self.id_of(owner, key)
        terms: dict[str, str] = {"unique_1": record_id, "unique_2": record_id}
        for name, index in self.kind.indexes.items():
            values = {field: getattr(value, field) for field in index.fields}
            own = "".join(term_in(field, self._adapters[field], each) for field, each in values.items())
            if not index.unique:
                # So that no two are the same, and pages neither repeat nor skip any.
                own += sha256(record_id.encode()).hexdigest()[:24]
            elif all(each is None for each in values.values()):
                # Of those without any value there may be many.
                continue
            terms[self._columns[name]] = self._beginning_in(name, owner) + own
        if self._is_searched:
            within = None if self._within is None else getattr(value, self._within)
            place = SearchedPlace.of(written_at, record_id, revision)
            terms["searched"] = self.searched_together(owner, within) + place.text
        if self.kind.words is not None:
            terms["words"] = _words_of(self.kind.words, value)
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
            value=stored,
            vector=vector,
            **terms,
        )

    def value_of(self, row: ApplicationRecord) -> R:
        """The record, brought to the kind's version. Raises NewerRecord, and what an upgrade or the model raises."""
        if row.version > self.kind.version:
            raise NewerRecord(self.id, row.version, self.kind.version)
        if row.version == self.kind.version:
            return self._read(row.value)
        # An upgrade may change what it is given.
        value = from_json(to_json(row.value))
        for version in range(row.version, self.kind.version):
            value = self.kind.upgrades[version](value)
        return self._read(value)

    def _stored(self, value: R) -> dict[str, Any]:
        """The value as JSON, which must be read as the same: a model may have said otherwise what is written of it."""
        try:
            text = value.model_dump_json(warnings="error").encode()
        except ValueError as error:
            if "surrogates not allowed" in str(error):
                raise BadFrame("a text is no valid Unicode") from None
            # The error quotes the value.
            raise ValueError(f"a record of kind {self.id} is none of its model's") from None
        if len(text) > LARGEST_BYTES:
            raise BadFrame(f"the record is larger than {LARGEST_BYTES} bytes")
        stored: object = from_json(text)
        if type(stored) is not dict or self._read(stored) != value:
            raise ValueError(f"a record of kind {self.id} would not be read as it is written")
        return stored

    def _read(self, value: object) -> R:
        try:
            return self.kind.model.model_validate_json(to_json(value))
        except ValidationError as error:
            # Its own text quotes the value.
            places = ", ".join(".".join(map(str, each["loc"])) or each["type"] for each in error.errors()[:5])
            raise ValueError(f"a record of kind {self.id} is none of its model's: {places}") from None


def _columns(indexes: Mapping[str, Index]) -> dict[str, Order]:
    numbers = {True: iter(("unique_1", "unique_2")), False: iter(("index_1", "index_2", "index_3", "index_4"))}
    columns: dict[str, Order] = {}
    for name, index in indexes.items():
        column: Any = next(numbers[index.unique])
        columns[name] = column
    return columns


def _adapter(kind: Kind[Any], field: str) -> TypeAdapter[Any]:
    """Brings a value that is looked for to the form that the model gives to a stored one."""
    found = kind.model.model_fields[field]
    annotation: Any = found.annotation
    if found.metadata:
        annotation = Annotated[annotation, *found.metadata]
    config = kind.model.model_config
    texts = ConfigDict(
        str_to_lower=config.get("str_to_lower", False),
        str_to_upper=config.get("str_to_upper", False),
        str_strip_whitespace=config.get("str_strip_whitespace", False),
    )
    return TypeAdapter(annotation, config=texts)


def _told(kind: Kind[Any], index: Index) -> tuple[object, ...]:
    """All of the index that its terms depend on."""
    fields = [kind.model.model_fields[field] for field in index.fields]
    types = [f"{field.annotation!r} {field.metadata!r}" for field in fields]
    return index.fields, index.unique, index.all_owners, types


def _told_of_words(kind: Kind[Any], words: Words) -> tuple[object, ...]:
    """All that what is searched of a record depends on."""
    return words.fields, words.language, _told_of_within(kind, words.within), VERSION


def _told_of_within(kind: Kind[Any], within: str | None) -> tuple[object, ...]:
    return () if within is None else _told(kind, Index(within))


def _words_of(words: Words, value: object) -> str:
    language = None if words.language is None else getattr(value, words.language)
    return counted_words([getattr(value, name) for name in words.fields], language)
