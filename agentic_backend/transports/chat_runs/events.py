"""The events of a chat run, and the answers and errors of its calls. Fields are in camelCase on the wire.

Exactly one `done` comes per stream and per list of events, and it is the last one.
"""

from typing import Any, Literal, Self

from pydantic import Field

from agentic_backend.errors import ContentFiltered
from agentic_backend.protocol.events import Code, Content, ErrorInfo, RequestId, Retryable
from agentic_backend.protocol.parts import absent
from agentic_backend.protocol.trust import TrustSummary
from agentic_backend.transports.camel_case import CamelValue
from agentic_backend.transports.rest.operation import ErrorForm

RunStatus = Literal["running", "awaiting_approval", "succeeded", "failed", "canceled"]
"""`running` in a `done`: the run goes on, but its stream or its list ends."""


class TextDelta(CamelValue):
    """New text of the answer."""

    type: Literal["text_delta"] = "text_delta"
    text: str
    """What to add to the text before it."""
    replaces: Literal[True] | None = absent()
    """It takes the place of all text before it, and may be empty."""


class AgentSwitch(CamelValue):
    """Another agent goes on."""

    type: Literal["agent_switch"] = "agent_switch"
    agent_name: str
    """The agent, by the name that people know."""


class Handoff(CamelValue):
    """An agent has given the run to another."""

    type: Literal["handoff"] = "handoff"
    origin: str = Field(alias="from")
    """The agent that gives it, by the name that people know."""
    to: str
    """The agent that takes it, by the name that people know."""


class ToolApprovalRequested(CamelValue):
    """The run waits for a person's decision about a tool call."""

    type: Literal["tool_approval_requested"] = "tool_approval_requested"
    name: str
    """The tool."""
    args: dict[str, Any] | None = absent()
    """The arguments that it would get."""
    tool_call_id: str
    """Names the call in the decision."""
    run_id: str
    """The run that waits."""


class ToolStart(CamelValue):
    """The agent has called a tool. One that a person has to approve runs only after that."""

    type: Literal["tool_start"] = "tool_start"
    name: str
    """The tool."""
    args: dict[str, Any] | None = absent()
    """Its arguments."""
    tool_call_id: str | None = absent()
    """The call's id; its `tool_end` has the same."""


class ToolEnd(CamelValue):
    """A tool has answered, or was stopped."""

    type: Literal["tool_end"] = "tool_end"
    name: str
    """The tool."""
    result: str | None = absent()
    """What it has answered, as text."""
    status: Literal["succeeded", "failed"] | None = absent()
    """`failed`: the tool failed, was rejected or was cancelled."""
    tool_call_id: str | None = absent()
    """The call's id."""


class AgentProgress(CamelValue):
    """How far the run is."""

    type: Literal["agent_progress"] = "agent_progress"
    run_id: str
    """The run."""
    status: Literal["running", "awaiting_approval"]
    """Whether it waits for a person."""
    partial_output: str
    """The end of the answer's text so far."""
    tools_invoked: list[str] | None = absent()
    """The last tools."""
    run_state: dict[str, Any] | None = absent()
    """What the agent itself tells of its progress or, while the run waits, what else it asks a person."""
    correlation_id: str | None = absent()
    """That of the request that began the run."""


class AgentSummary(CamelValue):
    """What the answer rests on."""

    type: Literal["agent_summary"] = "agent_summary"
    run_id: str
    """The run."""
    trust: TrustSummary
    """The summary."""


class RunFailure(CamelValue):
    """Why a run failed."""

    type: Literal["runtime", "guardrail"]
    """`guardrail`: a module or the filter of the model's provider objected."""
    code: Code
    message: Content
    retryable: Retryable
    request_id: RequestId
    retry_after_s: float | None = absent()
    """How long to wait before, in seconds."""
    stage: Literal["input", "tool_result", "output"] | None = absent()
    """What the guardrail objected to: the user's message, a tool's result, or the agent's answer."""
    module: str | None = absent()
    """The module that objected."""

    @classmethod
    def of(cls, info: ErrorInfo) -> Self:
        return cls(
            type="guardrail" if info.code == ContentFiltered.code else "runtime",
            code=info.code,
            message=info.content,
            retryable=info.retryable,
            request_id=info.request_id,
            retry_after_s=info.retry_after_s,
        )


class RunError(CamelValue):
    """The run failed."""

    type: Literal["error"] = "error"
    error: RunFailure
    """Why."""


class RunDone(CamelValue):
    """The end of the stream: always its last event, exactly once."""

    type: Literal["done"] = "done"
    run_id: str
    """The run."""
    status: RunStatus
    """How the run ended, or that it goes on without this stream."""
    conversation_id: str | None = absent()
    """The session of the run."""


RunEvent = (
    TextDelta
    | AgentSwitch
    | Handoff
    | ToolApprovalRequested
    | ToolStart
    | ToolEnd
    | AgentProgress
    | AgentSummary
    | RunError
    | RunDone
)


class DecidedRun(CamelValue):
    """The events of the run from the decision to its end or its next pause. `cut`: some are left out."""

    ok: Literal[True] = True
    events: list[RunEvent]
    cut: Literal[True] | None = absent()


class ResumedRun(CamelValue):
    """The events of the run's last exchange, from its beginning. `cut`: some are left out."""

    ok: Literal[True] = True
    run_id: str
    status: RunStatus
    events: list[RunEvent]
    cut: Literal[True] | None = absent()


class RunRefused(ErrorForm, CamelValue):
    """The body of a refused call."""

    ok: Literal[False] = False
    error: RunFailure

    @classmethod
    def of(cls, info: ErrorInfo) -> Self:
        return cls(error=RunFailure.of(info))
