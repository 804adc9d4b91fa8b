"""What instances tell each other besides the events of exchanges, whatever carries it.

Messages contain their version: an instance drops versions that it does not know. They contain texts, such as a
session's title, which must not reach a log.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentic_backend.protocol.messages import ExchangeStatus, Session

Version = Literal[1]
VERSION: Version = 1


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


class ListChanged(_Told):
    """Anything of a session has changed; `ended` is how an exchange of it has just ended, if one has."""

    type: Literal["news"] = "news"
    user_id: str
    session_id: str
    ended: ExchangeStatus | None = None


class AgentsChanged(_Told):
    """Agents of the database have changed."""

    type: Literal["agents"] = "agents"


class ResetWanted(_Told):
    """A reader can't start or continue in the exchange's stream: the owner must restart it with a `reset`."""

    type: Literal["reset"] = "reset"
    exchange_id: str


Told = Joined | StopWanted | StartedHere | Changed | ListChanged | AgentsChanged | ResetWanted


class ControlMessage(_Told):
    """`sender` is an instance's id."""

    version: Version = VERSION
    sender: str
    told: Annotated[Told, Field(discriminator="type")]

    def encode(self) -> bytes:
        return self.model_dump_json().encode()


def decode_control(data: object) -> ControlMessage:
    """Raises NotUnderstood."""
    try:
        if isinstance(data, bytes):
            return ControlMessage.model_validate_json(data)
    except ValidationError:
        pass
    raise NotUnderstood from None
