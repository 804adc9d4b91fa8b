"""The error tree: one class per cause, each with its code on the wire, HTTP status and whether a retry may help.

`str(error)` is written for the client: it never holds the text of a foreign exception, a token or a message.
"""

from typing import ClassVar


class AgenticError(Exception):
    """Base of every error that a client may see. `close_code` closes a WebSocket where one is named."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = True
    close_code: ClassVar[int | None] = None
    default: ClassVar[str] = "Something went wrong on the server."

    def __init__(self, content: str | None = None, *, retry_after_s: float | None = None) -> None:
        super().__init__(content or self.default)
        self.retry_after_s = retry_after_s

    @property
    def content(self) -> str:
        return str(self)


class Internal(AgenticError):
    pass


class BadFrame(AgenticError):
    code, http_status, retryable = "bad_frame", 400, False
    default = "The frame is not understood."


class MessageTooLarge(AgenticError):
    code, http_status, retryable = "message_too_large", 413, False
    default = "The message is too large."


class Unauthenticated(AgenticError):
    code, http_status, close_code = "unauthenticated", 401, 4401
    default = "A valid access token is needed."


class TokenExpired(AgenticError):
    code, http_status, close_code = "token_expired", 401, 4401
    default = "The access token has expired."


class Forbidden(AgenticError):
    code, http_status, retryable = "forbidden", 403, False
    default = "You have no access to this."


class SessionNotFound(AgenticError):
    code, http_status, retryable = "session_not_found", 404, False
    default = "There is no such session."


class ExchangeNotFound(AgenticError):
    code, http_status, retryable = "exchange_not_found", 404, False
    default = "There is no such exchange."


class AgentNotFound(AgenticError):
    code, http_status, retryable = "agent_not_found", 404, False
    default = "There is no such agent."


class SessionCompleted(AgenticError):
    code, http_status, retryable = "session_completed", 409, False
    default = "The session is completed."


class SessionBusy(AgenticError):
    code, http_status = "session_busy", 409
    default = "An exchange is running in this session."


class ApprovalNotFound(AgenticError):
    code, http_status, retryable = "approval_not_found", 409, False
    default = "Nothing waits for this decision."


class ApprovalMismatch(AgenticError):
    code, http_status, retryable = "approval_mismatch", 409, False
    default = "The arguments are not those that were shown."


class CheckpointMissing(AgenticError):
    code, http_status, retryable = "checkpoint_missing", 409, False
    default = "There is nothing to resume from."


class LimitReached(AgenticError):
    code, http_status, retryable = "limit_reached", 409, False
    default = "A limit of the exchange has been reached."


class RateLimited(AgenticError):
    code, http_status = "rate_limited", 429
    default = "Too many requests; wait a little."


class TooManyRuns(AgenticError):
    code, http_status = "too_many_runs", 429
    default = "Too many exchanges are running; wait until one has ended."


class AgentUnavailable(AgenticError):
    code, http_status = "agent_unavailable", 503
    default = "The agent could not be started."


class ModelError(AgenticError):
    code, http_status = "model_error", 502
    default = "The language model failed."


class ModelTimeout(AgenticError):
    code, http_status = "model_timeout", 504
    default = "The language model did not answer in time."


class StoreUnavailable(AgenticError):
    code, http_status = "store_unavailable", 503
    default = "The store is not available; nothing was saved."


class ShuttingDown(AgenticError):
    code, http_status, close_code = "shutting_down", 503, 1012
    default = "The server is going down; try again in a moment."


class Interrupted(AgenticError):
    code, http_status = "interrupted", 503
    default = "The server that ran this exchange went away."
