"""The events of the session stream. A stream ends with exactly one `done` or `error`, its last event."""

from typing import Annotated, Any, Literal

from pydantic import Field
from sse_starlette import ServerSentEvent

from agentic_backend.protocol.messages import FinishReason, TokenUsage
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart, absent
from agentic_backend.transports.camel_case import CamelValue
from agentic_backend.transports.session_stream.errors import SessionStreamError


class ToolCall(CamelValue):
    """A call of a tool."""

    id: str
    name: str
    args: dict[str, Any]

    @classmethod
    def of(cls, part: ToolCallPart) -> "ToolCall":
        return cls(id=part.call_id, name=part.name, args=part.args)


class ToolResult(CamelValue):
    """What a tool has answered; `id` is the call's. `ok` is false if the tool failed or was stopped."""

    id: str
    result: str
    ok: bool | None = absent()

    @classmethod
    def of(cls, part: ToolResultPart) -> "ToolResult":
        return cls(id=part.call_id, result=part.content, ok=part.ok)


class Tokens(CamelValue):
    """How many tokens the models took. A count that no model has told is absent."""

    input: int | None = absent()
    output: int | None = absent()
    total: int | None = absent()

    @classmethod
    def of(cls, usage: TokenUsage) -> "Tokens":
        return cls(input=usage.input_tokens, output=usage.output_tokens, total=usage.total_tokens)


class DoneMeta(CamelValue):
    """What the answer took. `model` is the one that answered, null if none did.

    `latencyMs` runs from the message to the stored answer. `seq` is the answer's place in the session, absent if there
    is no answer.
    """

    model: str | None
    tokens: Tokens
    latency_ms: int
    exchange_id: str
    seq: int | None = absent()
    finish_reason: FinishReason | None = absent()
    blocked: Literal[True] | None = absent()
    """A module has blocked the message or the answer; what it says instead is the answer."""
    cancelled: Literal[True] | None = absent()
    """The exchange was stopped; the answer is as long as it was then."""


class Chunk(CamelValue):
    """New text of the answer. With `replaces` it takes the place of all text before it."""

    type: Literal["chunk"] = "chunk"
    content: str
    replaces: Literal[True] | None = absent()


class ToolCalled(CamelValue):
    """The agent calls a tool."""

    type: Literal["tool_call"] = "tool_call"
    tool_call: ToolCall


class ToolReturned(CamelValue):
    """A tool has answered, or was stopped."""

    type: Literal["tool_result"] = "tool_result"
    tool_result: ToolResult


class Done(CamelValue):
    """The answer is complete, or as long as it was when it was stopped."""

    type: Literal["done"] = "done"
    meta: DoneMeta


class StreamError(SessionStreamError):
    """The exchange failed, or its stream can't go on."""

    type: Literal["error"] = "error"
    exchange_id: str | None = absent()


StreamEvent = Annotated[Chunk | ToolCalled | ToolReturned | Done | StreamError, Field(discriminator="type")]


def server_sent(event: StreamEvent) -> ServerSentEvent:
    return ServerSentEvent(data=event.__pydantic_serializer__.to_json(event).decode(), event=event.type)
