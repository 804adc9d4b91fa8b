"""Everything that the client raises: one tree, by what a caller can do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from agentic_backend.protocol.events import AwaitingHuman, ErrorInfo, Final, FrameRefused

if TYPE_CHECKING:
    from agentic_backend.client.exchange import Exchange


class ChatError(Exception):
    """Base of all errors of the client."""


class Unreachable(ChatError):
    """No server could be reached, or none answered, for as long as the client has patience.

    The text tells what was last in the way. `code` is the HTTP status of the handshake or the close code, where it was
    one.
    """

    def __init__(self, content: str, code: int | None = None) -> None:
        super().__init__(content if code is None else f"{content} ({code})")
        self.code = code


class TurnedAway(ChatError):
    """The server does not take the connection, and another try would change nothing.

    `code` is the socket's close code (see docs/protocol.md), or the HTTP status of the handshake.
    """

    def __init__(self, code: int, content: str) -> None:
        super().__init__(f"{content} ({code})")
        self.code = code


class Unreadable(ChatError):
    """What the server sent is not of the protocol, or too large."""


class Closed(ChatError):
    """The client has been closed."""


class Refused(ChatError):
    """The server has refused an ask, a decision or a call. `code` is one of docs/protocol.md, `content` for people."""

    def __init__(self, error: ErrorInfo | FrameRefused) -> None:
        super().__init__(f"{error.code}: {error.content}")
        self.code = error.code
        self.content = error.content
        self.whose = error.whose
        self.retryable = error.retryable
        self.retry_after_s = error.retry_after_s
        self.request_id = error.request_id
        self.detail = error.detail

    @classmethod
    def of(cls, error: ErrorInfo | FrameRefused) -> Refused:
        """The error of the narrowest class."""
        if error.code.endswith("not_found"):
            return NotFound(error)
        if error.code in ("unauthenticated", "token_expired", "forbidden"):
            return NotAllowed(error)
        return TryLater(error) if error.retryable else cls(error)


class NotFound(Refused):
    """There is no such session, exchange, agent or request; or it is another user's."""


class NotAllowed(Refused):
    """The user's token is not taken, or the user may not do this."""


class TryLater(Refused):
    """The same may succeed later; after `retry_after_s`, where that is known."""


class Unanswered(ChatError):
    """The exchange has ended without an answer: stopped, blocked, interrupted or failed. `final` tells how."""

    def __init__(self, final: Final) -> None:
        super().__init__(final.error.content if final.error is not None else f"The exchange ended as {final.status}.")
        self.final = final


class PersonNeeded(ChatError):
    """The exchange waits for a person: decide on `waiting`, then go on reading `exchange`."""

    def __init__(self, exchange: Exchange, waiting: AwaitingHuman) -> None:
        super().__init__(waiting.payload.title or "The agent waits for a person's decision.")
        self.exchange = exchange
        self.waiting = waiting


def rule_broken(error: ValueError) -> str:
    """Why something can't be sent: the rule that a value breaks, without the value, in one line."""
    return error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error).splitlines()[0]
