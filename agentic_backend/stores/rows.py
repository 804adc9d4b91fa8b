"""The values of rows in any database: times, searchable texts, JSON, and their size."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic_core import to_json

from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import Timestamp
from agentic_backend.stores.records import MessageRecord

Row = dict[str, Any]
R = TypeVar("R", bound=Mapping[str, Any])

_TIMESTAMP: TypeAdapter[datetime] = TypeAdapter(Timestamp)
_PARTIALS: TypeAdapter[list[PartialText]] = TypeAdapter(list[PartialText])

PROOF_BYTES = 32_768
"""The number of bytes that a proof of writing has: about the size of the rows of a short ask."""


def rfc3339(at: datetime) -> str:
    """`at` in the protocol's format; such texts sort chronologically."""
    text: str = _TIMESTAMP.dump_python(at, mode="json")
    return text


def folded(text: str) -> str:
    """`text` for a case-insensitive search. Databases themselves fold ASCII only, or by a locale."""
    return text.casefold()


def json_text(value: object) -> str | None:
    """`value` as JSON, None if it is empty; the same value always gives the same text."""
    return to_json(value).decode() if value else None


def partial_of(text: str) -> list[PartialText]:
    """The texts in a row's `partial`."""
    return _PARTIALS.validate_json(text)


def unstored(partial: Sequence[PartialText], stored_blocks: Collection[int | None]) -> list[PartialText]:
    """The texts without those whose block is stored as a message."""
    return [text for text in partial if text.block not in stored_blocks]


def row_bytes(row: Mapping[str, Any]) -> int:
    """The approximate size of a stored message: its JSON texts, in bytes of UTF-8."""
    return sum(len(text) if text.isascii() else len(text.encode()) for text in (row["parts"], row["metadata"]))


def message_bytes(message: MessageRecord) -> int:
    """The same size as `row_bytes`, for a message that has no row yet."""
    return len(to_json(message.parts)) + len(to_json(message.metadata))


def with_first(first: Sequence[R], last: Sequence[R]) -> list[R]:
    """An exchange's `last` messages, behind its `first` one unless that is among them.

    They are two reads: if the session is deleted between them, there are no `last` ones, and the result is empty.
    """
    return [*(row for row in first if last and row["rank"] < last[0]["rank"]), *last]
