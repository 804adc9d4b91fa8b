"""The events of AG-UI 1.0 that this server sends. A run has one `RUN_STARTED`, and ends with one `RUN_FINISHED` or
`RUN_ERROR`.
"""

from typing import Any, Literal

from pydantic import Field

from agentic_backend.protocol.events import Code
from agentic_backend.protocol.parts import absent
from agentic_backend.transports.camel_case import CamelValue

Json = dict[str, Any]


class RunStarted(CamelValue):
    """The run has begun."""

    type: Literal["RUN_STARTED"] = "RUN_STARTED"
    thread_id: str = Field(examples=["weather-in-bern"])
    run_id: str = Field(examples=["run-1"])


class TokenCounts(CamelValue):
    """The tokens of all model calls, as far as they are told."""

    input_tokens: int | None = absent()
    output_tokens: int | None = absent()
    total_tokens: int | None = absent()


class Interrupt(CamelValue):
    """What a person is asked."""

    id: str
    """Names it in the entry of `resume` that answers it: for just what is shown."""
    reason: Literal["tool_call", "input_required"]
    message: str | None = absent()
    """What is asked, in words."""
    tool_call_id: str | None = absent()
    """The call that waits for an approval."""
    response_schema: Json | None = absent()
    """The JSON Schema of the answer's payload."""
    expires_at: str | None = absent()
    metadata: Json | None = absent()
    """What else the agent shows: `value`, `choices`, and of an approval `args` and `allowed`."""


class Outcome(CamelValue):
    """How a run ended: whole, waiting for a person, or stopped."""

    type: Literal["success", "interrupt", "cancelled"]
    interrupts: list[Interrupt] | None = absent()


class RunFinished(CamelValue):
    """The run has ended, and has not failed."""

    type: Literal["RUN_FINISHED"] = "RUN_FINISHED"
    thread_id: str = Field(examples=["weather-in-bern"])
    run_id: str = Field(examples=["run-1"])
    outcome: Outcome
    usage: list[TokenCounts] | None = absent()


class RunError(CamelValue):
    """The run has failed, or its stream can't go on."""

    type: Literal["RUN_ERROR"] = "RUN_ERROR"
    message: str = Field(examples=["The language model did not answer in time."])
    code: Code


class TextMessageStart(CamelValue):
    """A text of the agent begins."""

    type: Literal["TEXT_MESSAGE_START"] = "TEXT_MESSAGE_START"
    message_id: str
    role: Literal["assistant"] = "assistant"


class TextMessageContent(CamelValue):
    """What to add to the text."""

    type: Literal["TEXT_MESSAGE_CONTENT"] = "TEXT_MESSAGE_CONTENT"
    message_id: str
    delta: str


class TextMessageEnd(CamelValue):
    """The text is whole."""

    type: Literal["TEXT_MESSAGE_END"] = "TEXT_MESSAGE_END"
    message_id: str


class ReasoningStart(CamelValue):
    """The agent begins to think."""

    type: Literal["REASONING_START"] = "REASONING_START"
    message_id: str


class ReasoningMessageStart(CamelValue):
    """A thought begins."""

    type: Literal["REASONING_MESSAGE_START"] = "REASONING_MESSAGE_START"
    message_id: str
    role: Literal["reasoning"] = "reasoning"


class ReasoningMessageContent(CamelValue):
    """What to add to the thought."""

    type: Literal["REASONING_MESSAGE_CONTENT"] = "REASONING_MESSAGE_CONTENT"
    message_id: str
    delta: str


class ReasoningMessageEnd(CamelValue):
    """The thought is whole."""

    type: Literal["REASONING_MESSAGE_END"] = "REASONING_MESSAGE_END"
    message_id: str


class ReasoningEnd(CamelValue):
    """The agent has thought."""

    type: Literal["REASONING_END"] = "REASONING_END"
    message_id: str


class ToolCallStart(CamelValue):
    """The agent calls a tool."""

    type: Literal["TOOL_CALL_START"] = "TOOL_CALL_START"
    tool_call_id: str
    tool_call_name: str
    parent_message_id: str


class ToolCallArgs(CamelValue):
    """The arguments of the call, as JSON."""

    type: Literal["TOOL_CALL_ARGS"] = "TOOL_CALL_ARGS"
    tool_call_id: str
    delta: str


class ToolCallEnd(CamelValue):
    """The call is whole. It may still wait for an approval."""

    type: Literal["TOOL_CALL_END"] = "TOOL_CALL_END"
    tool_call_id: str


class ToolCallResult(CamelValue):
    """The tool has answered, or failed."""

    type: Literal["TOOL_CALL_RESULT"] = "TOOL_CALL_RESULT"
    message_id: str
    tool_call_id: str
    content: str
    role: Literal["tool"] = "tool"


class ActivitySnapshot(CamelValue):
    """What the agent is doing; it takes the place of what the same message told before."""

    type: Literal["ACTIVITY_SNAPSHOT"] = "ACTIVITY_SNAPSHOT"
    message_id: str
    activity_type: Literal["agent_switch", "handoff", "progress", "compacted"]
    content: Json


class MessagesSnapshot(CamelValue):
    """All messages: what was shown of the run is not what has become of it."""

    type: Literal["MESSAGES_SNAPSHOT"] = "MESSAGES_SNAPSHOT"
    messages: list[Json]


AgUiEvent = (
    RunStarted
    | TextMessageStart
    | TextMessageContent
    | TextMessageEnd
    | ReasoningStart
    | ReasoningMessageStart
    | ReasoningMessageContent
    | ReasoningMessageEnd
    | ReasoningEnd
    | ToolCallStart
    | ToolCallArgs
    | ToolCallEnd
    | ToolCallResult
    | ActivitySnapshot
    | MessagesSnapshot
    | RunFinished
    | RunError
)
