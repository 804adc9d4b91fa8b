"""Server events: the messages that clients receive.

Every event of an exchange has `session_id`, `exchange_id` and `seq`; the exchange's log mints `seq`. Only `encode`
serializes events, each to one line of JSON.
"""

from typing import Annotated, Any, Literal, Self, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from agentic_backend.errors import AgenticError, AgentInvalid, ApprovalRequired, Whose, whose_fault
from agentic_backend.protocol.messages import Channel, ChatMessage, ExchangeStatus, Session, Timestamp, TokenUsage
from agentic_backend.protocol.parts import Value, absent


class Event(BaseModel):
    """A server event. It is built from checked values, so pydantic validates only its shape."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str

    def encode(self) -> str:
        return self.__pydantic_serializer__.to_json(self).decode()


class Place(TypedDict):
    """The session and exchange of an event, and its place in the exchange."""

    session_id: str | None
    exchange_id: str
    seq: int


class ExchangeEvent(Event):
    session_id: str | None
    """Null in query mode only."""
    exchange_id: str
    """The exchange that the event tells of."""
    seq: int
    """The event's place in its exchange. It rises, perhaps with gaps; `started` and `reset` may set it lower again."""


Code = Annotated[str, Field(description="What went wrong: one of the error codes.", examples=["model_timeout"])]
Content = Annotated[
    str,
    Field(
        description="What went wrong, in words for the user.", examples=["The language model did not answer in time."]
    ),
]
Retryable = Annotated[bool, Field(description="Whether the same may be sent again.")]
RequestId = Annotated[str, Field(description="Finds the error in the server's log.", examples=["4f7c19"])]


def whose() -> Any:
    """The field for an error's `whose`; its default follows from `code`."""
    return Field(
        default_factory=lambda fields: whose_fault(fields.get("code", "")),
        description="Who can mend it: the client, the operator of a dependency, or the operator of the server.",
    )


class ErrorDetail(Value):
    """The exception behind an error, for the agent's author."""

    type: str
    """The exception's class."""
    text: str
    """Its text, without secrets."""
    where: str
    """The author's own line as `file:line in function`, the file relative to the working directory or to a directory
    of modules.
    """


class Problem(Value):
    """What is wrong at one place of a text; lines and columns count from 1."""

    message: str
    """What is wrong, in words."""
    line: int | None = absent()
    """The line, if it is known."""
    column: int | None = absent()
    """The column, if it is known."""


class ApprovalAsked(Value):
    """What the person has to approve of, before the request is sent again with `sha256` in its header `Approval`."""

    asked_by: str
    """Who asks: the id of an application, or `mcp:` and that of an MCP server."""
    title: str
    """What is to be done, in words."""
    data: dict[str, Any]
    """With what, for the person to read whole."""
    sha256: str
    """Names all of it, in hexadecimal digits."""

    @classmethod
    def of(cls, error: AgenticError) -> Self | None:
        if not isinstance(error, ApprovalRequired):
            return None
        return cls(asked_by=error.asked_by, title=error.title, data=dict(error.data), sha256=error.sha256)


class ErrorInfo(Value):
    """An error in words for the client."""

    code: Code
    content: Content
    whose: Whose = whose()
    retryable: Retryable
    request_id: RequestId
    retry_after_s: float | None = absent()
    """How long to wait before, in seconds."""
    detail: ErrorDetail | None = absent()
    """For developers and admins only."""
    problems: list[Problem] | None = absent()
    """Of a refused agent's entry: each at its place."""
    approval: ApprovalAsked | None = absent()
    """Of `approval_required`."""

    @classmethod
    def of(cls, error: AgenticError, request_id: str, detail: ErrorDetail | None = None) -> Self:
        return cls(
            code=error.code,
            content=error.content,
            whose=error.whose,
            retryable=error.retryable,
            request_id=request_id,
            retry_after_s=error.retry_after_s,
            detail=detail,
            problems=[Problem(message=message, line=line, column=column) for message, line, column in error.problems]
            if isinstance(error, AgentInvalid)
            else None,
            approval=ApprovalAsked.of(error),
        )


class Started(ExchangeEvent):
    """The first event of every exchange: the exchange is shown anew from here."""

    type: Literal["started"] = "started"
    client_exchange_id: str | None = absent()
    """The client's own id for the exchange, where its ask had one."""
    agent_id: str
    """The agent that answers."""
    session: Session | None
    """The session, which the ask may have opened; null in query mode."""
    resumes: str | None = absent()
    """The interrupted exchange that this one goes on with."""


class Stream(ExchangeEvent):
    """A complete and stored message; it replaces the deltas of its block."""

    type: Literal["stream"] = "stream"
    message: ChatMessage
    """The message."""
    block: int | None = absent()
    """The block whose deltas it replaces, where it had some."""


class Delta(ExchangeEvent):
    """New text of a message that is being written."""

    type: Literal["delta"] = "delta"
    block: int
    """The number of the message within its exchange; several may be written at once."""
    channel: Channel
    """Provisional until the message's `stream`."""
    text: str
    """What to add to the block's text."""


ActivityKind = Literal["agent_switch", "handoff", "progress", "compacted"]


class Activity(ExchangeEvent):
    """What the agent is doing."""

    type: Literal["activity"] = "activity"
    kind: ActivityKind
    """What `data` tells of."""
    data: dict[str, Any]
    """The facts, by name; a client ignores those it doesn't know."""


class Choice(Value):
    """One of the answers to choose from."""

    id: str
    """The answer."""
    label: str
    """The words to show."""
    description: str | None = absent()
    """More words to show."""


class HumanRequest(Value):
    """One request to a person: a tool call to approve, or a question to answer."""

    interrupt_id: str
    """Names the request in `answers`."""
    call_id: str | None = absent()
    """The tool call to decide on; names it in a decision."""
    name: str | None = absent()
    """The tool."""
    args: dict[str, Any] | None = absent()
    """The arguments that the tool would get."""
    args_sha256: str | None = absent()
    """SHA-256 in hexadecimal digits of the arguments' canonical JSON (RFC 8785); a decision repeats it."""
    question: str | None = absent()
    """What is asked, in words."""
    choices: list[Choice] | None = absent()
    """The answers to choose from."""
    response_schema: dict[str, Any] | None = absent()
    """The JSON Schema of the answer or, for a call, of edited arguments."""
    value: Any = absent()
    """What the graph gave to `interrupt()`; beyond 64 KiB a text, the beginning of its JSON."""
    allowed: list[str] = Field(default_factory=list)
    """The actions that a decision may take: `approve`, `reject`, `edit`."""


class HumanRequests(Value):
    """All that an exchange waits for; it takes the place of what was asked before."""

    title: str | None = absent()
    """The words above the requests."""
    requests: list[HumanRequest]
    """What waits for an answer; any of them may be answered first."""
    expires_at: Timestamp | None = absent()
    """When what is open counts as rejected (RFC 3339, UTC)."""


class AwaitingHuman(ExchangeEvent):
    """The graph has paused and waits for a person."""

    type: Literal["awaiting_human"] = "awaiting_human"
    payload: HumanRequests
    """What is asked."""


class ExchangeError(ExchangeEvent):
    """The exchange failed; its `final` follows."""

    type: Literal["error"] = "error"
    code: Code
    content: Content
    whose: Whose = whose()
    retryable: Retryable
    request_id: RequestId
    detail: ErrorDetail | None = absent()
    """For developers and admins only."""


class Final(ExchangeEvent):
    """The end of an exchange: always its last event, exactly once."""

    type: Literal["final"] = "final"
    status: ExchangeStatus
    """How it ended; never `running` or `awaiting_human`."""
    messages: list[ChatMessage]
    """All messages of the exchange, by rank; only the first and the last ones where they exceed a MiB."""
    session: Session | None
    """The session after the exchange; null in query mode."""
    usage: TokenUsage
    """The tokens of all model calls of the exchange."""
    error: ErrorInfo | None = absent()
    """Why it ended so, where an error did it."""
    resumable: bool | None = absent()
    """Of an interrupted exchange: whether it can be resumed; absent where that is not known."""


class PartialText(Value):
    """The text so far of a message that is being written."""

    block: int
    """The number of the message within its exchange."""
    channel: Channel
    """Provisional until the message's `stream`."""
    text: str
    """All of its text so far."""


class Reset(ExchangeEvent):
    """The log lacks the client's place: the client drops all that it shows of the exchange."""

    type: Literal["reset"] = "reset"
    messages: list[ChatMessage]
    """The messages of the exchange so far, by rank."""
    partial: list[PartialText]
    """The messages that are being written."""


class SessionChanged(Event):
    """A session has changed, or begun."""

    type: Literal["session"] = "session"
    session: Session
    """The session as it is."""
    status: ExchangeStatus | None = absent()
    """Of its active exchange or, where that has just ended, how; only to those who follow all sessions."""


class SessionDeleted(Event):
    """A session is gone, with all that was in it."""

    type: Literal["session_deleted"] = "session_deleted"
    session_id: str
    """The session."""


class FollowingSessions(Event):
    """From here on each change of the user's sessions is told: read their list now.

    It comes again where changes may have been missed.
    """

    type: Literal["following_sessions"] = "following_sessions"


class Idle(Event):
    """Answers a `follow` or a `stop` if nothing runs."""

    type: Literal["idle"] = "idle"
    session_id: str | None
    """Null for a query."""
    next_rank: int
    """The rank of the session's next message: a client that lacks earlier ones reads them."""


class FrameRefused(Event):
    """Refuses a client frame, and repeats its ids."""

    # An error with a `seq` is an ExchangeError.
    model_config = ConfigDict(json_schema_extra={"not": {"required": ["seq"]}})

    type: Literal["error"] = "error"
    code: Code
    content: Content
    whose: Whose = whose()
    retryable: Retryable
    request_id: RequestId
    retry_after_s: float | None = absent()
    """How long to wait before, in seconds."""
    detail: ErrorDetail | None = absent()
    """For developers and admins only."""
    refused: str | None = absent()
    """The frame's type, as it was given; `ask` where it had none."""
    client_exchange_id: str | None = absent()
    """That of the frame."""
    session_id: str | None = absent()
    """That of the frame."""
    exchange_id: str | None = absent()
    """That of the frame."""


class Pong(Event):
    """Answers a `ping`."""

    type: Literal["pong"] = "pong"


OfExchange = Annotated[
    Started | Stream | Delta | Activity | AwaitingHuman | ExchangeError | Final | Reset, Field(discriminator="type")
]
ServerEvent = OfExchange | SessionChanged | SessionDeleted | FollowingSessions | Idle | FrameRefused | Pong
"""Every event. An `error` with a `seq` is an ExchangeError, one without is a FrameRefused."""
