"""The columns of the SQLite schema: those of a table are the fields of its value's row (see rows)."""

from collections.abc import Iterable

from agentic_backend.protocol.messages import ChatMessage, Session
from agentic_backend.stores.rows import EXCHANGE_FIELDS


def _columns(names: Iterable[str], table: str) -> str:
    return ", ".join(f"{table}.{name}" for name in names)


def _insert(table: str, columns: Iterable[str]) -> str:
    names = list(columns)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)})"


SESSION_COLUMNS = _columns(Session.model_fields, "sessions")
EXCHANGE_COLUMNS = _columns(EXCHANGE_FIELDS, "exchanges")
MESSAGE_COLUMNS = _columns(ChatMessage.model_fields, "messages")
INSERT_SESSION = _insert("sessions", [*Session.model_fields, "search_title"])
INSERT_EXCHANGE = _insert("exchanges", EXCHANGE_FIELDS)
INSERT_MESSAGE = _insert("messages", [*ChatMessage.model_fields, "search_text", "block"])
