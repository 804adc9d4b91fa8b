"""Values of the protocol as flat rows, and back: what every database stores, whatever its form.

A row's fields are those of its value, under the same names, but for nested values: those are JSON texts, which hold
any key and any number. Times are RFC 3339 texts in UTC, which keep their microseconds and sort as times do;
`search_…` fields are case-folded. A function from a value raises ValueError where a text is no Unicode.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import from_json

from agentic_backend.protocol.messages import ChatMessage, Session, Timestamp
from agentic_backend.protocol.parts import Part, text_of
from agentic_backend.stores.base import ExchangeRecord, KpiRecord

Row = dict[str, Any]

_TIMESTAMP: TypeAdapter[datetime] = TypeAdapter(Timestamp)
_PARTS: TypeAdapter[list[Part]] = TypeAdapter(list[Part])


def rfc3339(at: datetime) -> str:
    """`at` as the protocol writes times; such texts sort as the times do."""
    text: str = _TIMESTAMP.dump_python(at, mode="json")
    return text


def folded(text: str) -> str:
    """`text` as it is searched, without regard to case; databases' own ways fold ASCII only, or by a locale."""
    return text.casefold()


def json_text(value: BaseModel | None) -> str | None:
    return None if value is None else value.model_dump_json()


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
        **dict.fromkeys(ExchangeRecord.model_fields),
        **exchange.model_dump(mode="json"),
        "usage": json_text(exchange.usage),
        "error": json_text(exchange.error),
        "pending": json_text(exchange.pending),
    }


def exchange_of(row: Mapping[str, Any]) -> ExchangeRecord:
    values = dict(row)
    for name in ("usage", "error", "pending"):
        values[name] = from_json(values[name] or "null")
    return ExchangeRecord.model_validate(values)


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


def kpi_row(record: KpiRecord) -> Row:
    return {
        "exchange_id": record.exchange_id,
        "user_id": record.user_id,
        "started_at": rfc3339(record.started_at),
        "record": record.model_dump_json(),
    }


def kpi_of(row: Mapping[str, Any]) -> KpiRecord:
    return KpiRecord.model_validate_json(row["record"])
