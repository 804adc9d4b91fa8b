"""The bodies of REST requests, strictly validated. Errors name the field."""

import re
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, StringConstraints, ValidationError, model_validator
from starlette.requests import ClientDisconnect, Request

from agentic_backend.errors import BadFrame, MessageTooLarge, NotFound
from agentic_backend.loop.loop_load import served_timeout
from agentic_backend.protocol.frame_rules import changes_something
from agentic_backend.protocol.frames import (
    MOST_ATTACHMENTS,
    MOST_PAST,
    Frame,
    HumanDecisions,
    Id,
    JsonInteger,
    PastMessage,
    Scope,
    first_problem,
)
from agentic_backend.transports.json_object import decode_object

Title = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]

Body = TypeVar("Body", bound=Frame)
_BODY_TIMEOUT_S = 30


class NoFields(Frame):
    """An empty object, or no body at all."""


class OpenSession(Frame):
    """What a new session begins with. Without `agent_id` it has the default agent; `scope` is whose settings apply."""

    agent_id: Id | None = Field(default=None, examples=["assistant"])
    scope: Scope = Field(default_factory=dict)
    title: Title | None = Field(default=None, examples=["Weather in Bern"])
    chat_profile: Id | None = None


class AskQuery(Frame):
    """A question without a session, as an `ask` frame with `mode: query`."""

    content: str = Field(min_length=1, repr=False)
    agent_id: Id | None = None
    client_exchange_id: Id | None = None
    chat_profile: Id | None = None
    scope: Scope = Field(default_factory=dict)
    runtime_context: dict[str, Any] = Field(default_factory=dict, repr=False)
    history: list[PastMessage] = Field(default_factory=list, max_length=MOST_PAST, repr=False)
    """What was said before, the oldest first."""


class ChangeSession(Frame):
    """What to change of a session, at least one of these."""

    model_config = ConfigDict(json_schema_extra=changes_something)

    title: Title | None = Field(default=None, examples=["Weather in Bern"])
    pinned: bool | None = None
    """Whether it is listed first."""
    archived: bool | None = None
    """Whether it is put away."""

    @model_validator(mode="after")
    def _changes_something(self) -> "ChangeSession":
        if self.title is None and self.pinned is None and self.archived is None:
            raise ValueError("title: needed where neither pinned nor archived is given")
        return self


class ForkSession(Frame):
    """Where a branch begins to differ: the first rank of an exchange of the session, or its next rank."""

    rank: JsonInteger = Field(ge=0, le=2**53)


class SendMessage(Frame):
    """A message of the user, with the ids of files that belong to it.

    The same `client_exchange_id` again begins no second exchange.
    """

    content: str = Field(min_length=1, repr=False)
    attachments: list[Id] = Field(default_factory=list, max_length=MOST_ATTACHMENTS)
    client_exchange_id: Id | None = None
    chat_profile: Id | None = None


class ResumeExchange(Frame):
    """What a person has decided and answered; without a `payload`, an interrupted exchange is resumed."""

    payload: HumanDecisions | None = None


# Ranks have fewer digits.
_RANK = re.compile(r"[0-9]{1,15}")


def rank_of(text: str) -> int:
    """The rank of a message in a path. Raises NotFound."""
    if not _RANK.fullmatch(text):
        raise NotFound("There is no such message.")
    return int(text)


async def body_data(request: Request, limit: int) -> bytes:
    """The request's body, of at most `limit` bytes. Raises BadFrame or MessageTooLarge."""
    data = bytearray()
    try:
        async with served_timeout(_BODY_TIMEOUT_S):
            async for piece in request.stream():
                data += piece
                if len(data) > limit:
                    raise MessageTooLarge(f"body: larger than the limit of {limit} bytes")
    except TimeoutError:
        raise BadFrame("The body did not arrive in time.") from None
    except ClientDisconnect:
        # The client has gone and won't read this, but a typed error keeps it out of the server's errors.
        raise BadFrame("The body broke off.") from None
    return bytes(data)


def body_in(data: bytes, model: type[Body]) -> Body:
    """The JSON body in `data`; an empty one counts as `{}`. Raises BadFrame."""
    try:
        return model.model_validate(decode_object(data) if data else {})
    except ValidationError as error:
        raise BadFrame(first_problem(error, "body")) from None
