"""The format of the messages between instances in Redis.

Each exchange has a stream of its events. An entry's id is its event's seq; `after` is the seq of the entry before it,
so that a reader notices missing entries. Everything else is a control message on one channel. Both contain their
version: an instance drops versions that it does not know. Entries contain message texts, which must not reach a log.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agentic_backend.protocol.events import (
    Activity,
    AwaitingHuman,
    Delta,
    ExchangeError,
    ExchangeEvent,
    Final,
    Reset,
    Started,
    Stream,
)
from agentic_backend.protocol.messages import ExchangeStatus, Session

Version = Literal[1]
VERSION: Version = 1

_EVENT: TypeAdapter[ExchangeEvent] = TypeAdapter(
    Annotated[
        Started | Stream | Delta | Activity | AwaitingHuman | ExchangeError | Final | Reset, Field(discriminator="type")
    ]
)


class NotUnderstood(Exception):
    """The message is malformed or of another version. Contains no part of it."""


class _Told(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Joined(_Told):
    """The sender has connected, and has missed all earlier messages."""

    type: Literal["joined"] = "joined"


class StopWanted(_Told):
    """A client has stopped the exchange."""

    type: Literal["stop"] = "stop"
    exchange_id: str


class StartedHere(_Told):
    """The sender runs the exchange."""

    type: Literal["started"] = "started"
    session_id: str
    exchange_id: str
    user_id: str


class Changed(_Told):
    type: Literal["changed"] = "changed"
    session: Session


class News(_Told):
    """Anything of a session has changed; `ended` is how an exchange of it has just ended, if one has."""

    type: Literal["news"] = "news"
    user_id: str
    session_id: str
    ended: ExchangeStatus | None = None


class ResetWanted(_Told):
    """A reader can't start or continue in the exchange's stream: the owner must restart it with a `reset`."""

    type: Literal["reset"] = "reset"
    exchange_id: str


Told = Joined | StopWanted | StartedHere | Changed | News | ResetWanted


class ControlMessage(_Told):
    """`sender` is an instance's id."""

    version: Version = VERSION
    sender: str
    told: Annotated[Told, Field(discriminator="type")]

    def encode(self) -> bytes:
        return self.model_dump_json().encode()


def control_channel_of(database: int) -> str:
    """The name of the control channel. It contains the database, because Redis shares channels between databases."""
    return f"agentic:{database}:control"


def decode_control(data: object) -> ControlMessage:
    """Raises NotUnderstood."""
    try:
        if isinstance(data, bytes):
            return ControlMessage.model_validate_json(data)
    except ValidationError:
        pass
    raise NotUnderstood from None


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
            return _EVENT.validate_json(fields[b"event"]), int(fields[b"after"])
    except (KeyError, TypeError, ValueError):
        # ValidationError is a ValueError.
        pass
    raise NotUnderstood from None
