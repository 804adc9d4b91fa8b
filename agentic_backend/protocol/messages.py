"""Messages and sessions in the form that clients receive."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, WithJsonSchema

from agentic_backend.protocol.parts import Part, Value, absent


class Role(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class Channel(StrEnum):
    """What a message is for."""

    FINAL = "final"
    PLAN = "plan"
    THOUGHT = "thought"
    OBSERVATION = "observation"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    ERROR = "error"
    SYSTEM_NOTE = "system_note"


class FinishReason(StrEnum):
    """Why a model ended its message."""

    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    TOOL_CALLS = "tool_calls"
    CANCELLED = "cancelled"
    OTHER = "other"


class SessionState(StrEnum):
    """A completed session takes no more asks, and is never active again."""

    ACTIVE = "active"
    COMPLETED = "completed"


class ExchangeStatus(StrEnum):
    """`RUNNING` and `AWAITING_HUMAN` are the states of an open exchange; the others are its ends."""

    RUNNING = "running"
    AWAITING_HUMAN = "awaiting_human"
    OK = "ok"
    ERROR = "error"
    STOPPED = "stopped"
    BLOCKED = "blocked"
    INTERRUPTED = "interrupted"

    @property
    def ended(self) -> bool:
        return self not in (ExchangeStatus.RUNNING, ExchangeStatus.AWAITING_HUMAN)

    @property
    def failed(self) -> bool:
        return self in (ExchangeStatus.ERROR, ExchangeStatus.INTERRUPTED)


def utc_now() -> datetime:
    return datetime.now(UTC)


def _rfc3339(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


Timestamp = Annotated[
    datetime,
    PlainSerializer(_rfc3339, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""An aware datetime; on the wire RFC 3339 in UTC with microseconds, so that texts sort chronologically."""


class TokenUsage(Value):
    """A count that no model has told is absent; a sum has the counts that are known."""

    input_tokens: int | None = absent()
    """Tokens that the models have read."""
    output_tokens: int | None = absent()
    """Tokens that the models have written."""
    total_tokens: int | None = absent()
    """Both, as the provider counts them."""

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            total_tokens=_sum(self.total_tokens, other.total_tokens),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


class MessageMetadata(Value):
    """What is known of a message beside its content."""

    model: str | None = absent()
    """The model that wrote it."""
    token_usage: TokenUsage | None = absent()
    """The tokens of the model call that made it."""
    sources: list[dict[str, Any]] = Field(default_factory=list)
    """What the message cites: `{number, title?, url?, file_name?, cited_text?}`, numbered from 1."""
    agent_id: str | None = absent()
    """The agent that wrote it."""
    latency_ms: int | None = absent()
    """The time of the model call, in milliseconds."""
    finish_reason: FinishReason | None = absent()
    """Why the model ended."""
    extras: dict[str, Any] = Field(default_factory=dict)
    """More facts by name; a client ignores those it doesn't know."""


class ChatMessage(Value):
    """One message of an exchange; it never changes once it is stored."""

    role: Role
    """Who says it."""
    channel: Channel
    """What the message is for: the answer (`final`), a step towards it, a tool's call or result, an error."""
    parts: list[Part]
    """Its content, in order."""
    metadata: MessageMetadata = Field(default_factory=MessageMetadata)
    """What is known of the message beside its content."""
    session_id: str | None
    """Null in query mode only."""
    exchange_id: str
    """The exchange that it belongs to."""
    rank: int
    """Its place in its session, from 0, without gap or repeat."""
    timestamp: Timestamp
    """When it was stored (RFC 3339, UTC)."""


class Parent(Value):
    """The session that a branch comes from: they share its rows below `rank`."""

    session_id: str
    """Names the session."""
    rank: int
    """The rank of the branch's first own message."""


class Session(Value):
    """One user's conversation with an agent."""

    id: str
    """Names the session."""
    user_id: str
    """Whose it is."""
    agent_id: str
    """The agent that answers where an ask names none."""
    title: str
    """Named after its first question, or by its user."""
    state: SessionState = SessionState.ACTIVE
    """Whether it takes more asks."""
    parent: Parent | None = absent()
    """The session that it is a branch of."""
    root_id: str | None = absent()
    """The session that all its ancestors come from, where it is a branch."""
    pinned: bool = False
    """Whether its user wants it listed first."""
    archived: bool = False
    """Whether its user has put it away."""
    created_at: Timestamp
    """RFC 3339, UTC."""
    updated_at: Timestamp
    """The last ask or change (RFC 3339, UTC)."""
    ended_at: Timestamp | None = absent()
    """When it was completed (RFC 3339, UTC)."""
    next_rank: int = 0
    """The rank of the next message."""
    message_count: int = 0
    """The number of stored messages."""
    chat_profile: str = "default"
    """Its chat profile."""
    active_exchange_id: str | None = absent()
    """The exchange that runs, or waits for a person."""
