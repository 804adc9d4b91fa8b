"""The bodies of REST requests, strictly validated. Errors name the field."""

import asyncio
from typing import Annotated, Any, TypeVar

from pydantic import Field, StringConstraints, ValidationError
from starlette.requests import ClientDisconnect, Request

from agentic_backend.errors import BadFrame, MessageTooLarge
from agentic_backend.protocol.frames import Frame, HumanDecisions, Id, Scope, first_problem
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


class RenameSession(Frame):
    """Another title."""

    title: Title


class ForkSession(Frame):
    """Where a branch begins to differ: the first rank of an exchange of the session, or its next rank."""

    rank: int = Field(ge=0, le=2**53)


class SendMessage(Frame):
    """A message of the user. The same `client_exchange_id` again begins no second exchange."""

    content: str = Field(min_length=1, repr=False)
    client_exchange_id: Id | None = None
    chat_profile: Id | None = None


class ResumeExchange(Frame):
    """What a person has decided and answered; without a `payload`, an interrupted exchange is resumed."""

    payload: HumanDecisions | None = None


async def body_of(request: Request, model: type[Body], limit: int) -> Body:
    """The request's JSON body; an empty body counts as `{}`. Raises BadFrame or MessageTooLarge."""
    data = bytearray()
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            async for piece in request.stream():
                data += piece
                if len(data) > limit:
                    raise MessageTooLarge(f"body: larger than the limit of {limit} bytes")
    except TimeoutError:
        raise BadFrame("The body did not arrive in time.") from None
    except ClientDisconnect:
        # The client has gone and won't read this, but a typed error keeps it out of the server's errors.
        raise BadFrame("The body broke off.") from None
    try:
        return model.model_validate(decode_object(bytes(data)) if data else {})
    except ValidationError as error:
        raise BadFrame(first_problem(error, "body")) from None
