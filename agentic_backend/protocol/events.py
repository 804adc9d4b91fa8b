"""Server events: what a client receives.

Every event of an exchange carries `session_id`, `exchange_id` and `seq`; the exchange's log mints `seq`. `encode` is
the only way out, one line of JSON per event.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from agentic_backend.errors import AgenticError
from agentic_backend.protocol.messages import Channel, ChatMessage, ExchangeStatus, Session, Timestamp, TokenUsage
from agentic_backend.protocol.parts import Value, absent


class Event(BaseModel):
    """A server event. Built from checked values only, so that nothing but its shape is validated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str

    def encode(self) -> str:
        return self.__pydantic_serializer__.to_json(self).decode()


class ExchangeEvent(Event):
    session_id: str | None
    exchange_id: str
    seq: int


class ErrorInfo(Value):
    """What went wrong, in words for the client. `request_id` finds the details in the log."""

    code: str
    content: str
    retryable: bool
    request_id: str
    retry_after_s: float | None = absent()

    @classmethod
    def of(cls, error: AgenticError, request_id: str) -> "ErrorInfo":
        return cls(
            code=error.code,
            content=error.content,
            retryable=error.retryable,
            request_id=request_id,
            retry_after_s=error.retry_after_s,
        )


class Started(ExchangeEvent):
    type: Literal["started"] = "started"
    client_exchange_id: str | None = absent()
    agent_id: str
    session: Session | None
    resumes: str | None = absent()


class Stream(ExchangeEvent):
    """A message is complete and stored; it replaces what the deltas of its block showed."""

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
    """One thing that waits for a person: a tool call to approve, or a question to answer."""

    interrupt_id: str
    call_id: str | None = absent()
    name: str | None = absent()
    args: dict[str, Any] | None = absent()
    args_sha256: str | None = absent()
    question: str | None = absent()
    choices: list[Choice] | None = absent()
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
    retryable: bool
    request_id: str


class Final(ExchangeEvent):
    """The exchange has ended: always last, exactly once."""

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
    """The client's place in the log is gone or unknown: forget what was shown of this exchange."""

    type: Literal["reset"] = "reset"
    messages: list[ChatMessage]
    partial: list[PartialText]


class SessionChanged(Event):
    type: Literal["session"] = "session"
    session: Session


class Idle(Event):
    """Answers a `follow` or a `stop` when nothing runs. `session_id` is None where a query was named."""

    type: Literal["idle"] = "idle"
    session_id: str | None
    next_rank: int


class FrameRefused(Event):
    """Refuses a client frame, echoing its type and the ids that it named."""

    type: Literal["error"] = "error"
    code: str
    content: str
    retryable: bool
    request_id: str
    retry_after_s: float | None = absent()
    refused: str | None = absent()
    client_exchange_id: str | None = absent()
    session_id: str | None = absent()
    exchange_id: str | None = absent()


class Pong(Event):
    type: Literal["pong"] = "pong"
