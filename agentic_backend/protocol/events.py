"""Server events: the messages that clients receive.

Every event of an exchange has `session_id`, `exchange_id` and `seq`; the exchange's log mints `seq`. Only `encode`
serializes events, each to one line of JSON.
"""

from typing import Annotated, Any, Literal, Self, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from agentic_backend.errors import AgenticError, Whose, whose_fault
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
    exchange_id: str
    seq: int


def whose() -> Any:
    """The field for an error's `whose`; its default follows from `code`."""
    return Field(default_factory=lambda fields: whose_fault(fields.get("code", "")))


class ErrorDetail(Value):
    """The exception behind an error, for the agent's author: its class, its text without secrets, the author's line.

    `where` is "file:line in function", the file relative to the working directory or to a directory of modules.
    """

    type: str
    text: str
    where: str


class ErrorInfo(Value):
    """An error in words for the client. `request_id` finds it in the log.

    Only developers and admins get `detail`.
    """

    code: str
    content: str
    whose: Whose = whose()
    retryable: bool
    request_id: str
    retry_after_s: float | None = absent()
    detail: ErrorDetail | None = absent()

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
        )


class Started(ExchangeEvent):
    type: Literal["started"] = "started"
    client_exchange_id: str | None = absent()
    agent_id: str
    session: Session | None
    resumes: str | None = absent()


class Stream(ExchangeEvent):
    """A complete and stored message; it replaces the deltas of its block."""

    type: Literal["stream"] = "stream"
    message: ChatMessage
    block: int | None = absent()


class Delta(ExchangeEvent):
    """New text of the message being written in `block`; `channel` is provisional until its `stream`."""

    type: Literal["delta"] = "delta"
    block: int
    channel: Channel
    text: str


class Activity(ExchangeEvent):
    type: Literal["activity"] = "activity"
    kind: Literal["agent_switch", "handoff", "progress", "compacted"]
    data: dict[str, Any]


class Choice(Value):
    id: str
    label: str
    description: str | None = absent()


class HumanRequest(Value):
    """One request to a person: a tool call to approve, or a question to answer.

    `response_schema` is the JSON Schema of the answer, `value` the value of the graph's interrupt.
    """

    interrupt_id: str
    call_id: str | None = absent()
    name: str | None = absent()
    args: dict[str, Any] | None = absent()
    args_sha256: str | None = absent()
    question: str | None = absent()
    choices: list[Choice] | None = absent()
    response_schema: dict[str, Any] | None = absent()
    value: Any = absent()
    allowed: list[str] = Field(default_factory=list)


class HumanRequests(Value):
    title: str | None = absent()
    requests: list[HumanRequest]
    expires_at: Timestamp | None = absent()


class AwaitingHuman(ExchangeEvent):
    type: Literal["awaiting_human"] = "awaiting_human"
    payload: HumanRequests


class ExchangeError(ExchangeEvent):
    """The exchange failed; its `final` follows."""

    type: Literal["error"] = "error"
    code: str
    content: str
    whose: Whose = whose()
    retryable: bool
    request_id: str
    detail: ErrorDetail | None = absent()


class Final(ExchangeEvent):
    """The end of an exchange: always its last event, exactly once."""

    type: Literal["final"] = "final"
    status: ExchangeStatus
    messages: list[ChatMessage]
    session: Session | None
    usage: TokenUsage
    error: ErrorInfo | None = absent()


class PartialText(Value):
    block: int
    channel: Channel
    text: str


class Reset(ExchangeEvent):
    """The log lacks the client's place: the client drops all that it shows of the exchange."""

    type: Literal["reset"] = "reset"
    messages: list[ChatMessage]
    partial: list[PartialText]


class SessionChanged(Event):
    type: Literal["session"] = "session"
    session: Session


class Idle(Event):
    """Answers a `follow` or a `stop` if nothing runs. `session_id` is None for a query."""

    type: Literal["idle"] = "idle"
    session_id: str | None
    next_rank: int


class FrameRefused(Event):
    """Refuses a client frame; repeats its type (`ask` if it has none) and its ids."""

    type: Literal["error"] = "error"
    code: str
    content: str
    whose: Whose = whose()
    retryable: bool
    request_id: str
    retry_after_s: float | None = absent()
    detail: ErrorDetail | None = absent()
    refused: str | None = absent()
    client_exchange_id: str | None = absent()
    session_id: str | None = absent()
    exchange_id: str | None = absent()


class Pong(Event):
    type: Literal["pong"] = "pong"


OfExchange = Annotated[
    Started | Stream | Delta | Activity | AwaitingHuman | ExchangeError | Final | Reset, Field(discriminator="type")
]
ServerEvent = OfExchange | SessionChanged | Idle | FrameRefused | Pong
"""Every event. An `error` with a `seq` is an ExchangeError, one without is a FrameRefused."""
