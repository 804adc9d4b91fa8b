"""The events of the session stream. A stream ends with exactly one `done` or `error`, its last event."""

from typing import Annotated, Any, Literal

from pydantic import Field

from agentic_backend.protocol.messages import FinishReason, TokenUsage
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart, absent
from agentic_backend.transports.camel_case import CamelValue
from agentic_backend.transports.session_stream.errors import SessionStreamError
from agentic_backend.transports.sse import ServerSentEvent


class ToolCall(CamelValue):
    """A call of a tool."""

    id: str
    """Unique in its exchange; the result has the same."""
    name: str
    """The tool."""
    args: dict[str, Any]
    """Its arguments."""

    @classmethod
    def of(cls, part: ToolCallPart) -> "ToolCall":
        return cls(id=part.call_id, name=part.name, args=part.args)


class ToolResult(CamelValue):
    """What a tool has answered."""

    id: str
    """That of the call."""
    result: str
    """The answer as text, or the error."""
    ok: bool | None = absent()
    """False if the tool failed or was stopped."""

    @classmethod
    def of(cls, part: ToolResultPart) -> "ToolResult":
        return cls(id=part.call_id, result=part.content, ok=part.ok)


class Tokens(CamelValue):
    """How many tokens the models took. A count that no model has told is absent."""

    input: int | None = absent()
    """Tokens that the models have read."""
    output: int | None = absent()
    """Tokens that the models have written."""
    total: int | None = absent()
    """Both, as the provider counts them."""

    @classmethod
    def of(cls, usage: TokenUsage) -> "Tokens":
        return cls(input=usage.input_tokens, output=usage.output_tokens, total=usage.total_tokens)


class DoneMeta(CamelValue):
    """What the answer took."""

    model: str | None
    """The one that answered, null if no call of one has ended."""
    tokens: Tokens
    """Those of all model calls."""
    latency_ms: int
    """The time from the message to the stored answer, in milliseconds."""
    exchange_id: str
    """The exchange."""
    seq: int | None = absent()
    """The answer's place in the session, absent if there is no answer."""
    finish_reason: FinishReason | None = absent()
    """Why the model ended its answer."""
    blocked: Literal[True] | None = absent()
    """A module has blocked the message or the answer; what it says instead is the answer."""
    cancelled: Literal[True] | None = absent()
    """The exchange was stopped; the answer is as long as it was then."""


class Chunk(CamelValue):
    """New text of the answer."""

    type: Literal["chunk"] = "chunk"
    content: str
    """What to add to the text before it."""
    replaces: Literal[True] | None = absent()
    """It takes the place of all text before it."""


class ToolCalled(CamelValue):
    """The agent calls a tool."""

    type: Literal["tool_call"] = "tool_call"
    tool_call: ToolCall
    """The call."""


class ToolReturned(CamelValue):
    """A tool has answered, or was stopped."""

    type: Literal["tool_result"] = "tool_result"
    tool_result: ToolResult
    """The answer."""


class Done(CamelValue):
    """The answer is complete, or as long as it was when it was stopped."""

    type: Literal["done"] = "done"
    meta: DoneMeta
    """What it took."""


class StreamError(SessionStreamError):
    """The exchange failed, or its stream can't go on."""

    type: Literal["error"] = "error"
    exchange_id: str | None = absent()
    """The exchange, where one has begun."""


StreamEvent = Annotated[Chunk | ToolCalled | ToolReturned | Done | StreamError, Field(discriminator="type")]


def server_sent(event: StreamEvent) -> ServerSentEvent:
    return ServerSentEvent(data=event.__pydantic_serializer__.to_json(event).decode(), event=event.type)
