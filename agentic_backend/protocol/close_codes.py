"""The codes that close a WebSocket, each with advice for the client (as centrifuge's disconnect codes)."""

from enum import IntEnum, StrEnum
from typing import Self

from agentic_backend.errors import AgenticError, Forbidden, RateLimited, ShuttingDown, TokenExpired, Unauthenticated


class Advice(StrEnum):
    """The client's next step after its socket is closed."""

    RECONNECT = "reconnects, with jittered backoff"
    SIGN_IN = "gets a new token first"
    WAIT = "waits before it comes back"
    STAY_AWAY = "doesn't come back without a change"


class CloseCode(IntEnum):
    """Every code that the server closes a socket with."""

    advice: Advice

    def __new__(cls, code: int, advice: Advice) -> Self:
        close_code = int.__new__(cls, code)
        close_code._value_ = code
        close_code.advice = advice
        return close_code

    GOING_AWAY = 1001, Advice.RECONNECT
    POLICY_VIOLATION = 1008, Advice.STAY_AWAY
    """Too many control frames or fragments."""
    TOO_LARGE = 1009, Advice.STAY_AWAY
    """A frame exceeds the limit."""
    INTERNAL_ERROR = 1011, Advice.RECONNECT
    RESTART = 1012, Advice.RECONNECT
    """The server shuts down; another one takes the connection."""
    TOO_SLOW = 4008, Advice.RECONNECT
    """The client doesn't read its events in time."""
    SIGN_IN_AGAIN = 4401, Advice.SIGN_IN
    FORBIDDEN = 4403, Advice.STAY_AWAY
    """The user has no access to this server."""
    TOO_MANY = 4429, Advice.WAIT
    """Too many connections are open."""


CONNECTION_LOST = 1006
"""The code of a connection that ended without a close frame (RFC 6455 §7.1.5); never sent."""


def closing(error: AgenticError) -> CloseCode | None:
    """The code that closes a socket after `error` in a frame; None if the socket stays open."""
    if isinstance(error, Unauthenticated | TokenExpired):
        return CloseCode.SIGN_IN_AGAIN
    return CloseCode.RESTART if isinstance(error, ShuttingDown) else None


def closing_handshake(error: AgenticError) -> CloseCode:
    """The code that closes the socket of a client that is refused with `error`."""
    if isinstance(error, Forbidden):
        return CloseCode.FORBIDDEN
    if isinstance(error, RateLimited):
        return CloseCode.TOO_MANY
    return closing(error) or CloseCode.INTERNAL_ERROR
