"""Values of the protocol as flat rows, and back: what every database stores, whatever its form.

A row's fields are those of its value, under the same names, but for nested values: those are JSON texts, which hold
any key and any number, or None where there is nothing in them. An exchange's `checkpoint` is the state that it goes on
from, which is no part of its value; what is told of it is its `checkpoint_record`. Times are RFC 3339 texts in UTC,
which keep their microseconds and sort as times do; `search_…` fields are case-folded. A function from a value raises
ValueError where a text is no Unicode.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import ChatMessage, Session, Timestamp
from agentic_backend.protocol.parts import Part, text_of
from agentic_backend.stores.records import ExchangeRecord, KpiRecord

Row = dict[str, Any]

_TIMESTAMP: TypeAdapter[datetime] = TypeAdapter(Timestamp)
# What is nested in an exchange, by its name in the row.
_NESTED = {
    "usage": "usage",
    "error": "error",
    "runtime_context": "runtime_context",
    "partial": "partial",
    "pending": "pending",
    "decisions": "decisions",
    "checkpoint_record": "checkpoint",
}
_FLAT = [name for name in ExchangeRecord.model_fields if name not in _NESTED.values()]
EXCHANGE_FIELDS = (*_FLAT, *_NESTED)

_PARTS: TypeAdapter[list[Part]] = TypeAdapter(list[Part])
_PARTIALS: TypeAdapter[list[PartialText]] = TypeAdapter(list[PartialText])


def rfc3339(at: datetime) -> str:
    """`at` as the protocol writes times; such texts sort as the times do."""
    text: str = _TIMESTAMP.dump_python(at, mode="json")
    return text


def folded(text: str) -> str:
    """`text` as it is searched, without regard to case; databases' own ways fold ASCII only, or by a locale."""
    return text.casefold()


def json_text(value: object) -> str | None:
    """`value`, which may be empty, as JSON; the same value always gives the same text."""
    return to_json(value).decode() if value else None


def session_row(session: Session) -> Row:
    return {
        **dict.fromkeys(Session.model_fields),
        **session.model_dump(mode="json"),
        "search_title": folded(session.title),
    }


def session_of(row: Mapping[str, Any]) -> Session:
    return Session.model_validate(dict(row))


def exchange_row(exchange: ExchangeRecord) -> Row:
    return {
        **dict.fromkeys(_FLAT),
        **exchange.model_dump(mode="json", include=set(_FLAT)),
        **{column: json_text(getattr(exchange, name)) for column, name in _NESTED.items()},
    }


def exchange_of(row: Mapping[str, Any]) -> ExchangeRecord:
    """What is None in the row, or not there at all in one of an older schema, is as it is by default."""
    values = {name: value for name, value in dict(row).items() if value is not None}
    nested = {name: from_json(values.pop(column)) for column, name in _NESTED.items() if column in values}
    return ExchangeRecord.model_validate(values | nested)


def partial_of(text: str) -> list[PartialText]:
    """The texts of a row's `partial`."""
    return _PARTIALS.validate_json(text)


def unstored(partial: Sequence[PartialText], stored_blocks: Collection[int | None]) -> list[PartialText]:
    """Those of the texts whose block is not that of a stored message."""
    return [text for text in partial if text.block not in stored_blocks]


def message_row(message: ChatMessage) -> Row:
    return {
        "session_id": message.session_id,
        "exchange_id": message.exchange_id,
        "rank": message.rank,
        "timestamp": rfc3339(message.timestamp),
        "role": message.role,
        "channel": message.channel,
        "parts": _PARTS.dump_json(message.parts).decode(),
        "metadata": json_text(message.metadata),
        "search_text": folded(text_of(message.parts)),
    }


def message_of(row: Mapping[str, Any]) -> ChatMessage:
    values = dict(row)
    values["parts"] = from_json(values["parts"])
    values["metadata"] = from_json(values["metadata"])
    return ChatMessage.model_validate(values)


def row_bytes(row: Mapping[str, Any]) -> int:
    """About how large a stored message is: its texts, in bytes of UTF-8."""
    return len(row["parts"].encode()) + len(row["metadata"].encode())


def message_bytes(message: ChatMessage) -> int:
    """What `row_bytes` says of its row."""
    return len(_PARTS.dump_json(message.parts)) + len(to_json(message.metadata))


def kpi_row(record: KpiRecord) -> Row:
    return {
        "exchange_id": record.exchange_id,
        "user_id": record.user_id,
        "started_at": rfc3339(record.started_at),
        "record": record.model_dump_json(),
    }


def kpi_of(row: Mapping[str, Any]) -> KpiRecord:
    return KpiRecord.model_validate_json(row["record"])
