"""The columns of the SQLite schema: those of a table are the fields of its value's row (see rows)."""

from collections.abc import Iterable

from pydantic import BaseModel

from agentic_backend.protocol.messages import ChatMessage, Session
from agentic_backend.stores.base import ExchangeRecord


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
