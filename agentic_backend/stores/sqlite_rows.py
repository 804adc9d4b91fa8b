"""Values of the protocol as rows of the SQLite schema, and back.

A table's columns are the fields of its value, under the same names, but for nested values: those are JSON texts.
"""

import sqlite3
from collections.abc import Iterable
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


def _columns(value: type[BaseModel], table: str) -> str:
    return ", ".join(f"{table}.{name}" for name in value.model_fields)


def _insert(table: str, columns: Iterable[str]) -> str:
    names = list(columns)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)})"


SESSION_COLUMNS = _columns(Session, "sessions")
EXCHANGE_COLUMNS = _columns(ExchangeRecord, "exchanges")
MESSAGE_COLUMNS = _columns(ChatMessage, "messages")
INSERT_SESSION = _insert("sessions", [*Session.model_fields, "search_title"])
INSERT_EXCHANGE = _insert("exchanges", ExchangeRecord.model_fields)
INSERT_MESSAGE = _insert("messages", [*ChatMessage.model_fields, "search_text"])


def rfc3339(at: datetime) -> str:
    """`at` as the protocol writes times; such texts sort as the times do."""
    text: str = _TIMESTAMP.dump_python(at, mode="json")
    return text


def folded(text: str) -> str:
    """`text` as it is searched, without regard to case; SQLite's own LIKE folds ASCII only."""
    return text.casefold()


def json_text(value: BaseModel | None) -> str | None:
    return None if value is None else value.model_dump_json()


def session_row(session: Session) -> Row:
    return {
        **dict.fromkeys(Session.model_fields),
        **session.model_dump(mode="json"),
        "search_title": folded(session.title),
    }


def session_of(row: sqlite3.Row) -> Session:
    return Session.model_validate(dict(row))


def exchange_row(exchange: ExchangeRecord) -> Row:
    return {
        **dict.fromkeys(ExchangeRecord.model_fields),
        **exchange.model_dump(mode="json"),
        "usage": json_text(exchange.usage),
        "error": json_text(exchange.error),
        "pending": json_text(exchange.pending),
    }


def exchange_of(row: sqlite3.Row) -> ExchangeRecord:
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


def message_of(row: sqlite3.Row) -> ChatMessage:
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


def kpi_of(row: sqlite3.Row) -> KpiRecord:
    return KpiRecord.model_validate_json(row["record"])
