"""Messages and sessions in the form that clients receive."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, WithJsonSchema

from agentic_backend.protocol.parts import Part, Value, absent


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class Channel(StrEnum):
    FINAL = "final"
    PLAN = "plan"
    THOUGHT = "thought"
    OBSERVATION = "observation"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    ERROR = "error"
    SYSTEM_NOTE = "system_note"


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    TOOL_CALLS = "tool_calls"
    CANCELLED = "cancelled"
    OTHER = "other"


class SessionState(StrEnum):
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
    output_tokens: int | None = absent()
    total_tokens: int | None = absent()

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            total_tokens=_sum(self.total_tokens, other.total_tokens),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


class MessageMetadata(Value):
    model: str | None = absent()
    token_usage: TokenUsage | None = absent()
    sources: list[dict[str, Any]] = Field(default_factory=list)
    agent_id: str | None = absent()
    latency_ms: int | None = absent()
    finish_reason: FinishReason | None = absent()
    extras: dict[str, Any] = Field(default_factory=dict)


class ChatMessage(Value):
    """One message of an exchange. `session_id` is None in query mode only."""

    role: Role
    channel: Channel
    parts: list[Part]
    metadata: MessageMetadata = Field(default_factory=MessageMetadata)
    session_id: str | None
    exchange_id: str
    rank: int
    timestamp: Timestamp


class Session(Value):
    id: str
    user_id: str
    agent_id: str
    title: str
    state: SessionState = SessionState.ACTIVE
    created_at: Timestamp
    updated_at: Timestamp
    ended_at: Timestamp | None = absent()
    next_rank: int = 0
    message_count: int = 0
    chat_profile: str = "default"
    active_exchange_id: str | None = absent()
