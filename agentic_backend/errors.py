"""The error tree: one class per cause, with wire code, HTTP status, responsible party, and whether a retry may help.

`str(error)` is for the client: it never contains the text of a foreign exception, a token or a message.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

Whose = Literal["client", "external", "internal"]
"""Who can fix it: the client, the operator of a dependency, or the operator of the server."""

TokenRefusal = Literal[
    "missing",
    "malformed",
    "unknown_key",
    "key",
    "algorithm",
    "signature",
    "issuer",
    "audience",
    "azp",
    "not_yet_valid",
    "not_an_access_token",
    "claims",
]
"""Why an access token is not valid, other than that it has expired."""

OTHER = "_OTHER"
"""OpenTelemetry's word for an error, or another value of an attribute, that has no name of its own."""


class AgenticError(Exception):
    """Base of every error that a client may see."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500
    whose: ClassVar[Whose] = "internal"
    # Of the class; an instance may differ where its class says so.
    retryable: bool = True
    default: ClassVar[str] = "Something went wrong on the server."

    def __init__(
        self, content: str | None = None, *, retry_after_s: float | None = None, retryable: bool | None = None
    ) -> None:
        """`retryable` is for classes that say so; None: as their class."""
        super().__init__(content or self.default)
        self.retry_after_s = retry_after_s
        if retryable is not None:
            self.retryable = retryable

    @property
    def content(self) -> str:
        return str(self)

    @property
    def log_fields(self) -> dict[str, str]:
        """What the log says of a refusal by this error."""
        return {"code": self.code}


class Internal(AgenticError):
    pass


class BadFrame(AgenticError):
    code, http_status, whose, retryable = "bad_frame", 400, "client", False
    default = "What was sent is not understood."


class MessageTooLarge(AgenticError):
    code, http_status, whose, retryable = "message_too_large", 413, "client", False
    default = "The message is too large."


class Unauthenticated(AgenticError):
    code, http_status, whose = "unauthenticated", 401, "client"
    default = "A valid access token is needed."

    def __init__(
        self,
        content: str | None = None,
        *,
        retry_after_s: float | None = None,
        reason: TokenRefusal | None = None,
    ) -> None:
        """`reason` is for the operator only: it never goes to the client."""
        super().__init__(content, retry_after_s=retry_after_s)
        self.reason = reason

    @property
    def log_fields(self) -> dict[str, str]:
        return {**super().log_fields, **({"reason": self.reason} if self.reason is not None else {})}


class TokenExpired(AgenticError):
    code, http_status, whose = "token_expired", 401, "client"
    default = "The access token has expired."


class Forbidden(AgenticError):
    code, http_status, whose, retryable = "forbidden", 403, "client", False
    default = "You have no access to this."


class SessionNotFound(AgenticError):
    code, http_status, whose, retryable = "session_not_found", 404, "client", False
    default = "There is no such session."


class ExchangeNotFound(AgenticError):
    code, http_status, whose, retryable = "exchange_not_found", 404, "client", False
    default = "There is no such exchange."


class AgentNotFound(AgenticError):
    code, http_status, whose, retryable = "agent_not_found", 404, "client", False
    default = "There is no such agent."


class AgentConflict(AgenticError):
    code, http_status, whose, retryable = "agent_conflict", 409, "client", False
    default = "The agent has been changed meanwhile."


class AgentInvalid(AgenticError):
    """An agent's entry is not accepted; `problems` says why, with a line and a column where they are known."""

    code, http_status, whose, retryable = "agent_invalid", 422, "client", False
    default = "The agent's entry is not accepted."

    def __init__(
        self,
        content: str | None = None,
        *,
        retry_after_s: float | None = None,
        problems: Sequence[tuple[str, int | None, int | None]] = (),
    ) -> None:
        super().__init__(content, retry_after_s=retry_after_s)
        self.problems = problems


class AttachmentNotFound(AgenticError):
    code, http_status, whose, retryable = "attachment_not_found", 404, "client", False
    default = "There is no such attachment."


class AttachmentSent(AgenticError):
    code, http_status, whose, retryable = "attachment_sent", 409, "client", False
    default = "The attachment has been sent: it is deleted with its session."


class DocumentUnreadable(AgenticError):
    """A file has no text that can be read: of another kind, broken, encrypted, too large; the words say which."""

    code, http_status, whose, retryable = "document_unreadable", 422, "client", False
    default = "The file can't be read."


class NotFound(AgenticError):
    code, http_status, whose, retryable = "not_found", 404, "client", False
    default = "There is no such path."


class MethodNotAllowed(AgenticError):
    code, http_status, whose, retryable = "method_not_allowed", 405, "client", False
    default = "There is no such method at this path."


class SessionCompleted(AgenticError):
    code, http_status, whose, retryable = "session_completed", 409, "client", False
    default = "The session is completed."


class AssignmentNotOpen(AgenticError):
    code, http_status, whose, retryable = "assignment_not_open", 403, "client", False
    default = "The assignment is not open yet."


class AssignmentClosed(AgenticError):
    code, http_status, whose, retryable = "assignment_closed", 403, "client", False
    default = "The assignment is closed."


class SessionBusy(AgenticError):
    code, http_status, whose = "session_busy", 409, "client"
    default = "An exchange runs or waits in this session."


class ApprovalNotFound(AgenticError):
    code, http_status, whose, retryable = "approval_not_found", 409, "client", False
    default = "Nothing waits for this decision."


class ApprovalMismatch(AgenticError):
    code, http_status, whose, retryable = "approval_mismatch", 409, "client", False
    default = "The arguments are not those that were shown."


class ApprovalRequired(AgenticError):
    """The person has to approve of what it says; then the request is sent again with the hash as `Approval`."""

    code, http_status, whose, retryable = "approval_required", 409, "client", False
    default = "You have to approve of this first."

    def __init__(
        self,
        content: str | None = None,
        *,
        asked_by: str = "",
        title: str = "",
        data: Mapping[str, Any] | None = None,
        sha256: str = "",
        **more: Any,
    ) -> None:
        """`title` and `data`, as JSON has it, are shown to the person; `sha256` is the hash of all three."""
        super().__init__(content, **more)
        self.asked_by = asked_by
        self.title = title
        self.data = data or {}
        self.sha256 = sha256


class AmbiguousInterrupt(AgenticError):
    """A graph asks in such a way that an answer could reach another question."""

    code, http_status, whose, retryable = "ambiguous_interrupt", 500, "internal", False
    default = "The agent asks several things at once in a way that can't be told apart."


class Blocked(AgenticError):
    """A module has blocked what a person said; the text is the module's direct response."""

    code, http_status, whose, retryable = "blocked", 422, "client", False
    default = "This may not be said here."


class CheckpointMissing(AgenticError):
    code, http_status, whose, retryable = "checkpoint_missing", 409, "client", False
    default = "There is nothing to resume from."


class StateRefused(AgenticError):
    """What is stored of an agent's state holds a type that may not be built again; the text names it."""

    code, http_status, whose, retryable = "state_refused", 500, "internal", False
    default = "What is stored of the agent's state is not read."


class LimitReached(AgenticError):
    code, http_status, whose, retryable = "limit_reached", 409, "client", False
    default = "A limit of the exchange has been reached."

    @classmethod
    def of_agent(cls, agent: str, limit: str, value: object, reason: str = "") -> Self:
        """A limit of an agent's catalog entry, such as `steps`, or the setting that takes its place.

        `agent` is its name; `reason` is a clause that says what went beyond it.
        """
        return cls(f"The agent '{agent}' has reached its limit {limit} of {value}{reason and f': {reason}'}.")


class BudgetExceeded(AgenticError):
    code, http_status, whose, retryable = "budget_exceeded", 429, "client", False
    default = "The budget is used up."


class RateLimited(AgenticError):
    code, http_status, whose = "rate_limited", 429, "client"
    default = "Too many requests; wait a little."


class TooManyRuns(AgenticError):
    code, http_status, whose = "too_many_runs", 429, "client"
    default = "Too many exchanges are running; wait until one has ended."


class Overloaded(AgenticError):
    code, http_status, whose = "overloaded", 503, "internal"
    default = "The server has more to do than it can; ask again in a moment."


class AgentUnavailable(AgenticError):
    """Not `retryable` if a running agent's own code is at fault."""

    code, http_status, whose = "agent_unavailable", 503, "external"
    default = "The agent could not be started."


class ApplicationUnavailable(AgenticError):
    """Not `retryable` if the application's own code is at fault."""

    code, http_status, whose = "application_unavailable", 503, "external"
    default = "The application is not available."


class RecordConflict(AgenticError):
    """A record of an application is not as a write expects it, or another one has its unique value.

    `retryable` where it is just being written.
    """

    code, http_status, whose, retryable = "record_conflict", 409, "client", False
    default = "This has been changed meanwhile, or is there already."


class ModelError(AgenticError):
    """Not `retryable` if the provider refused the request itself, for a cause that has no class of its own."""

    code, http_status, whose = "model_error", 502, "external"
    default = "The language model failed."


class ModelTimeout(AgenticError):
    code, http_status, whose = "model_timeout", 504, "external"
    default = "The language model did not answer in time."


class ModelRefusedKey(AgenticError):
    code, http_status, whose, retryable = "model_refused_key", 502, "external", False
    default = "The language model's provider refused the server's key."


class ModelNotFound(AgenticError):
    code, http_status, whose, retryable = "model_not_found", 502, "external", False
    default = "The provider has no such language model."


class ModelQuota(AgenticError):
    code, http_status, whose, retryable = "model_quota", 502, "external", False
    default = "The quota at the language model's provider is used up."


class ContextTooLong(AgenticError):
    code, http_status, whose, retryable = "context_too_long", 422, "client", False
    default = "The conversation is too long for the language model."


class ContentFiltered(AgenticError):
    code, http_status, whose, retryable = "content_filtered", 422, "client", False
    default = "The language model's provider filtered the content."


class AnswerInvalid(AgenticError):
    """Of an answer in a format that the client has asked for."""

    code, http_status, whose, retryable = "answer_invalid", 422, "external", False
    default = "The answer is not in the format that was asked for."


class AuthUnavailable(AgenticError):
    code, http_status, whose = "auth_unavailable", 503, "external"
    default = "Tokens can't be checked at the moment; try again soon."


class StoreUnavailable(AgenticError):
    code, http_status, whose = "store_unavailable", 503, "external"
    default = "The store is not available; nothing was saved."


class ShuttingDown(AgenticError):
    code, http_status, whose = "shutting_down", 503, "internal"
    default = "The server is going down; try again in a moment."


class Interrupted(AgenticError):
    code, http_status, whose = "interrupted", 503, "internal"
    default = "The server that ran this exchange went away."


def class_of(code: str) -> type[AgenticError]:
    """The class of the errors with this code; Internal for an unknown code."""
    return next((error for error in AgenticError.__subclasses__() if error.code == code), Internal)


def whose_fault(code: str) -> Whose:
    """The party that can fix an error with this code; "internal" for an unknown code."""
    return class_of(code).whose
