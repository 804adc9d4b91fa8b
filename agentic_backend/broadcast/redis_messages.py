"""What instances tell each other by way of Redis, as it is written there.

Each exchange has a stream of its events. An entry's id is its event's seq; `after` is the seq of the entry before it,
so that a reader knows whether it has missed one. Everything else goes over one channel as control messages. Both name
their version: who doesn't know it drops what it can't read. Texts of messages are in the entries, and never in a log.
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
from agentic_backend.protocol.messages import Session

Version = Literal[1]
VERSION: Version = 1

_EVENT: TypeAdapter[ExchangeEvent] = TypeAdapter(
    Annotated[
        Started | Stream | Delta | Activity | AwaitingHuman | ExchangeError | Final | Reset, Field(discriminator="type")
    ]
)


class NotUnderstood(Exception):
    """What was received is none of ours, or of another version. Never says what it was."""


class _Told(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Joined(_Told):
    """The sender is connected, and has heard nothing until now."""

    type: Literal["joined"] = "joined"


class StopWanted(_Told):
    """Somebody wants the exchange stopped."""

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


class ResetWanted(_Told):
    """A reader can't go on, or begin, in the exchange's stream: its owner makes it anew, with a `reset`."""

    type: Literal["reset"] = "reset"
    exchange_id: str


Told = Joined | StopWanted | StartedHere | Changed | ResetWanted


class ControlMessage(_Told):
    """`sender` is an instance's id."""

    version: Version = VERSION
    sender: str
    told: Annotated[Told, Field(discriminator="type")]

    def encode(self) -> bytes:
        return self.model_dump_json().encode()


def control_channel_of(database: int) -> str:
    """Redis has its channels once, not once for each database."""
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
    """The key of the exchange's stream, and the channel that tells of its new entries."""
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
