"""The events of an exchange, as instances pass them to each other."""

from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

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
from agentic_backend.relay.control_messages import NotUnderstood

_EVENT: TypeAdapter[ExchangeEvent] = TypeAdapter(
    Annotated[
        Started | Stream | Delta | Activity | AwaitingHuman | ExchangeError | Final | Reset, Field(discriminator="type")
    ]
)


def decode_event(data: bytes) -> ExchangeEvent:
    """Raises NotUnderstood."""
    try:
        return _EVENT.validate_json(data)
    except ValidationError:
        raise NotUnderstood from None
