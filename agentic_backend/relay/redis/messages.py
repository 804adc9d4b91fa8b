"""The format of the messages between instances in Redis.

Each exchange has a stream of its events. An entry's id is its event's seq; `after` is the seq of the entry before it,
so that a reader notices missing entries. Control messages go through one channel. Entries contain their version and
message texts, which must not reach a log.
"""

from collections.abc import Mapping
from typing import Any

from agentic_backend.protocol.events import ExchangeEvent
from agentic_backend.relay.control_messages import VERSION, NotUnderstood
from agentic_backend.relay.encoded_events import decode_event


def control_channel_of(database: int) -> str:
    """The name of the control channel. It contains the database, because Redis shares channels between databases."""
    return f"agentic:{database}:control"


def stream_of(exchange_id: str) -> str:
    """The key of the exchange's stream, and the name of the channel that announces its new entries."""
    return f"agentic:exchange:{exchange_id}"


def entry_of(event: ExchangeEvent, after: int) -> Mapping[Any, str | int]:
    """The fields of a stream's entry; `after` is the seq of the entry before it."""
    return {"version": VERSION, "after": after, "event": event.encode()}


def decode_entry(fields: object) -> tuple[ExchangeEvent, int]:
    """The event, and the seq of the entry before it. Raises NotUnderstood."""
    try:
        if isinstance(fields, dict) and int(fields[b"version"]) == VERSION:
            return decode_event(fields[b"event"]), int(fields[b"after"])
    except (KeyError, TypeError, ValueError):
        pass
    raise NotUnderstood from None
