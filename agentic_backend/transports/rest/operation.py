"""Operation: a REST call, declared once for its route, the checks of its input, and the OpenAPI document.

A handler's signature is its contract. `user`, `body` and `query` are the caller, the JSON body and the query string,
`upload` is the one file of a multipart body, `request` is the request itself, and every other parameter is a part of
the path. A handler that returns a Value is answered with its JSON, one that returns None with 204 and no body. The
handler's name is the operation's id, its docstring the description.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Self, get_type_hints

from starlette.requests import Request
from starlette.responses import Response

from agentic_backend.auth.user import User
from agentic_backend.errors import (
    AgenticError,
    AgentNotFound,
    AgentUnavailable,
    AnswerInvalid,
    ApprovalMismatch,
    ApprovalNotFound,
    AssignmentClosed,
    AssignmentNotOpen,
    AttachmentNotFound,
    AuthUnavailable,
    BadFrame,
    Blocked,
    BudgetExceeded,
    CheckpointMissing,
    ContentFiltered,
    ContextTooLong,
    ExchangeNotFound,
    Forbidden,
    Internal,
    Interrupted,
    LimitReached,
    MessageTooLarge,
    ModelError,
    ModelNotFound,
    ModelQuota,
    ModelRefusedKey,
    ModelTimeout,
    NotFound,
    Overloaded,
    RateLimited,
    SessionBusy,
    SessionCompleted,
    SessionNotFound,
    ShuttingDown,
    StoreUnavailable,
    TokenExpired,
    TooManyRuns,
    Unauthenticated,
)
from agentic_backend.protocol.events import ErrorInfo
from agentic_backend.protocol.frames import Frame
from agentic_backend.protocol.parts import Value
from agentic_backend.transports.rest.deprecation import Deprecation
from agentic_backend.transports.rest.query_string import Query

PREFIX = "/agentic/v1"
"""Where the paths of the server's own calls begin."""


class ErrorForm(Value, ABC):
    """The body of an error, in the form of one door."""

    @classmethod
    @abstractmethod
    def of(cls, info: ErrorInfo) -> Self: ...


class ErrorBody(ErrorForm):
    """The body of a refused request."""

    error: ErrorInfo

    @classmethod
    def of(cls, info: ErrorInfo) -> Self:
        return cls(error=info)


@dataclass(frozen=True, slots=True)
class Streamed:
    """What a handler answers with if it makes the Response itself: the media type, and the type of its content.

    It is the type of the data of each event of a stream, of each line of `application/x-ndjson`, and of a whole JSON
    body. A caller may choose a text instead, whose media type is `or_text`, or events, whose data are `or_events`.
    Events may have `plain_data` too, which is no JSON: a mark of the beginning or the end.
    """

    media_type: str
    content: Any
    or_text: str | None = None
    or_events: Any = None
    plain_data: str | None = None


class Generated(Response):
    """What an application's handler has begun to stream; its border makes a stream of it."""

    def __init__(self, generator: AsyncGenerator[Any, None]) -> None:
        super().__init__()
        self.generator = generator


Border = Callable[[User, Callable[[], Awaitable[Response]]], Awaitable[Response]]
"""Has the second argument read the caller's input and answer it. For the code of others, around all that it may do."""

BINARY = "application/octet-stream"
"""The media type of an answer that may have any."""

FINDING = (AgentNotFound, AgentUnavailable)
"""The errors of an operation that looks at an agent."""
OPENING = (*FINDING, AssignmentNotOpen, AssignmentClosed)
"""The errors of an operation that opens a session."""
QUERYING = (*OPENING, TooManyRuns, Overloaded, BudgetExceeded, ShuttingDown)
"""The errors of an operation that begins an exchange without a session, before it has begun."""
ASKING = (*QUERYING, SessionNotFound, SessionCompleted, SessionBusy)
"""The errors of an operation that begins an exchange in a session, before it has begun."""
ATTACHING = (*ASKING, AttachmentNotFound)
"""The errors of an operation that asks with attachments."""
RUNNING = (
    ModelError,
    ModelTimeout,
    ModelRefusedKey,
    ModelNotFound,
    ModelQuota,
    ContextTooLong,
    ContentFiltered,
    AnswerInvalid,
    LimitReached,
    Interrupted,
)
"""The errors with which an exchange may end, for an operation that answers only then."""
RESUMING = (ExchangeNotFound, ApprovalNotFound, ApprovalMismatch, Blocked, CheckpointMissing)
"""The errors of an operation that continues an exchange, beside those of asking."""
# A foreign origin and an unknown host are refused before an operation is reached.
_ANY = (BadFrame, Forbidden, Internal)
_AUTHENTICATED = (Unauthenticated, TokenExpired, AuthUnavailable, RateLimited, StoreUnavailable)


@dataclass(frozen=True, slots=True)
class Header:
    """An optional header of a request, which the handler reads itself."""

    name: str
    description: str
    example: str


APPROVAL = Header(
    "Approval",
    "The `sha256` of what the person has approved of, after a refusal with `approval_required`.",
    "0" * 64,
)


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    """With the prefix, and with its parts as `{name}`."""
    handler: Callable[..., Awaitable[Value | Response | None] | AsyncIterator[Value]]
    _: KW_ONLY
    status: int = 200
    """Of a successful answer with a body."""
    answer: Streamed | None = None
    """None: the handler's return type."""
    headers: tuple[Header, ...] = ()
    errors: tuple[type[AgenticError], ...] = ()
    """Those that it raises beside the ones that any operation may raise."""
    error_form: type[ErrorForm] = ErrorBody
    upload: str | None = None
    """The name of the one file of a multipart body, which the handler reads itself, or is given as `upload`."""
    has_files: bool = False
    """Whether files may be within its body, which may be larger by one of them."""
    refused_as: str | None = None
    """The `call` label of the metric that counts refused input; None: it is not counted."""
    deprecated: Deprecation | None = None
    """None: the operation is to stay."""
    accepts: bool = False
    """Whether it may also answer with 202 and no body: there is nothing to say to what was sent."""
    challenge: Callable[[Request], str] | None = None
    """The `WWW-Authenticate` of its 401, where that says more than `Bearer`."""
    public: bool = False
    """Whether it needs no authentication. Such a handler has no `user`."""
    border: Border | None = None
    """Of an application's operation."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.path_parameters if f"{{{name}}}" not in self.path]
        if unknown:
            raise TypeError(f"{self.id}: {', '.join(unknown)}: neither an input nor a part of the path {self.path}")
        if self.public and "user" in self.types:
            raise TypeError(f"{self.id}: a public operation has no user")

    def behind(self, border: Border) -> Self:
        """The same operation behind a border; nothing of its handler is read again, which may be others' code."""
        copied = copy(self)
        object.__setattr__(copied, "border", border)
        return copied

    @cached_property
    def id(self) -> str:
        return self.handler.__name__

    @cached_property
    def description(self) -> str:
        return inspect.cleandoc(self.handler.__doc__ or "")

    @cached_property
    def types(self) -> Mapping[str, Any]:
        """The types of the handler's parameters, and of its `return`, by name."""
        return get_type_hints(self.handler, include_extras=True)

    @property
    def is_generated(self) -> bool:
        """Whether the handler is an async generator, as an application's may be."""
        return inspect.isasyncgenfunction(self.handler)

    @property
    def body(self) -> type[Frame] | None:
        return self.types.get("body")

    @property
    def takes_upload(self) -> bool:
        """Whether the handler is given the file of the body, which is read before."""
        return "upload" in self.types

    @property
    def query(self) -> type[Query] | None:
        return self.types.get("query")

    @property
    def answer_type(self) -> Any:
        """The type of the answer, or of each of its items; None if it has no body."""
        returned = self.types["return"]
        return self.answer.content if self.answer is not None else None if returned is type(None) else returned

    @property
    def deprecation_headers(self) -> dict[str, str]:
        """The headers of every answer, also of refusals, that tell that the operation will go."""
        return {} if self.deprecated is None else self.deprecated.headers

    @property
    def success(self) -> int:
        """The status of a successful answer."""
        return 204 if self.answer_type is None else self.status

    @property
    def possible_errors(self) -> list[type[AgenticError]]:
        """All errors that it may be answered with, each once."""
        errors: list[type[AgenticError]] = [*_ANY, *self.errors]
        if not self.public:
            errors += _AUTHENTICATED
        if self.body is not None or self.takes_upload:
            errors.append(MessageTooLarge)
        if self.path_parameters:
            # Of a part that is empty or has a slash.
            errors.append(NotFound)
        return list(dict.fromkeys(errors))

    @cached_property
    def path_parameters(self) -> list[str]:
        return [name for name in self.types if name not in ("user", "request", "body", "upload", "query", "return")]
