"""Where records are among those of their kind, in the order of their keys or of an index."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NoBase64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agentic_backend.errors import BadFrame
from agentic_backend.records.index_terms import AFTER_NONE, beginning_of, hexadecimal, term_of
from agentic_backend.stores.protocol.application_records import ApplicationRecord, Order, behind

_PLACE = re.compile(r"[0-9a-f.]+")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an owner's records are in an order: all their values of the column `order` begin with `beginning`."""

    order: Order
    beginning: str
    fields: Mapping[str, TypeAdapter[Any]]
    """The fields whose terms come behind the beginning; none in the order of keys."""

    def range(
        self, values: Sequence[object], beginning: str | None, at_least: object, below: object
    ) -> tuple[str, str]:
        """The first value of the column, and the one behind all, for what `find` is asked. Raises BadFrame."""
        among = self.beginning + self._terms(values, 0)
        if beginning is not None:
            if at_least is not None or below is not None or (self.fields and len(values) >= len(self.fields)):
                raise ValueError("a beginning is of the field behind those with values, and has no other bound")
            first = among + (beginning_of(beginning) if self.fields else hexadecimal(beginning))
            return first, behind(first)
        first = among if at_least is None else among + self._terms([at_least], len(values))
        if below is None:
            return first, behind(among)
        # None is below nothing.
        return max(first, among + AFTER_NONE), among + self._terms([below], len(values))

    def _terms(self, values: Sequence[object], first: int) -> str:
        """The terms of values of the fields from the `first` on. Raises BadFrame."""
        fields = list(self.fields.items())[first : first + len(values)]
        if len(fields) < len(values):
            raise ValueError(f"more values than the index has fields, which are {', '.join(self.fields) or 'none'}")
        return "".join(term_in(name, adapter, value) for (name, adapter), value in zip(fields, values, strict=True))

    def after(self, cursor: str | None) -> str | None:
        """The place that a cursor names, among these records. Raises BadFrame."""
        if cursor is None:
            return None
        try:
            place = urlsafe_b64decode(cursor.encode()).decode("ascii")
        except (NoBase64, UnicodeError):
            place = ""
        if not _PLACE.fullmatch(place):
            raise BadFrame("cursor: not one that a page has given")
        return self.beginning + place

    def cursor_behind(self, row: ApplicationRecord) -> str:
        """The cursor behind this record. It tells nothing of whose it is."""
        place: str = getattr(row, self.order)
        return urlsafe_b64encode(place.removeprefix(self.beginning).encode()).decode()


def term_in(field: str, adapter: TypeAdapter[Any], value: object) -> str:
    """The term of a field's value. Raises BadFrame."""
    try:
        return term_of(adapter.validate_python(value))
    except ValidationError:
        raise BadFrame(f"{field}: not a value of this field") from None
    except BadFrame as error:
        raise BadFrame(f"{field}: {error}") from None
