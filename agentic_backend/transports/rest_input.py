"""The bodies and query parameters of REST requests, strictly validated. Errors name the field."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar

from pydantic import Field, StringConstraints, ValidationError
from starlette.requests import ClientDisconnect, Request

from agentic_backend.errors import BadFrame, MessageTooLarge
from agentic_backend.protocol.frames import Frame, HumanDecisions, Id, Scope, decode_object, first_problem
from agentic_backend.protocol.messages import SessionState

Title = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]

Body = TypeVar("Body", bound=Frame)
_BODY_TIMEOUT_S = 30
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,20}")
# The largest offset from UTC in use.
_FARTHEST_OFFSET = timedelta(hours=14)


class OpenSession(Frame):
    agent_id: Id | None = None
    scope: Scope = Field(default_factory=dict)
    title: Title | None = None
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
    title: Title


class SendMessage(Frame):
    content: str = Field(min_length=1, repr=False)
    client_exchange_id: Id | None = None
    chat_profile: Id | None = None


class ResumeExchange(Frame):
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


def whole_number(request: Request, name: str, default: int, *, at_least: int, at_most: int) -> int:
    """A whole number in the query string, in ASCII digits. Raises BadFrame with the parameter's name."""
    text = request.query_params.get(name)
    if text is None:
        return default
    number = int(text) if _WHOLE_NUMBER.fullmatch(text) else at_least - 1
    if not at_least <= number <= at_most:
        raise BadFrame(f"{name}: expected a whole number from {at_least} to {at_most}")
    return number


def time_of(request: Request, name: str) -> datetime:
    """A time in the query string (RFC 3339) in UTC, which is the default offset. Raises BadFrame with its name."""
    # An unescaped plus sign in a query arrives as a space.
    text = request.query_params.get(name, "").strip().replace(" ", "+")
    try:
        time = datetime.fromisoformat(text)
        offset = time.utcoffset()
        if offset is None:
            return time.replace(tzinfo=UTC)
        if abs(offset) > _FARTHEST_OFFSET:
            raise ValueError
        # Near years 1 and 9999 the conversion can overflow.
        return time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadFrame(f"{name}: expected a time such as 2026-01-31T00:00:00Z") from None


def session_state(request: Request) -> SessionState | None:
    text = request.query_params.get("state")
    try:
        return SessionState(text) if text else None
    except ValueError:
        raise BadFrame("state: expected active or completed") from None
