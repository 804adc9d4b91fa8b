"""The events of a chat run, and the answers and errors of its calls. Fields are in camelCase on the wire.

Exactly one `done` comes per stream and per list of events, and it is the last one.
"""

from typing import Any, Literal, Self

from pydantic import Field

from agentic_backend.errors import ContentFiltered
from agentic_backend.protocol.events import ErrorInfo
from agentic_backend.protocol.parts import absent
from agentic_backend.protocol.trust import TrustSummary
from agentic_backend.transports.camel_case import CamelValue
from agentic_backend.transports.operation import ErrorForm

RunStatus = Literal["running", "awaiting_approval", "succeeded", "failed", "canceled"]
"""`running` in a `done`: the run goes on, but its stream or its list ends."""


class TextDelta(CamelValue):
    """New text of the answer. With `replaces` it takes the place of all text before it, and may be empty."""

    type: Literal["text_delta"] = "text_delta"
    text: str
    replaces: Literal[True] | None = absent()


class AgentSwitch(CamelValue):
    type: Literal["agent_switch"] = "agent_switch"
    agent_name: str


class Handoff(CamelValue):
    type: Literal["handoff"] = "handoff"
    origin: str = Field(alias="from")
    to: str


class ToolApprovalRequested(CamelValue):
    type: Literal["tool_approval_requested"] = "tool_approval_requested"
    name: str
    args: dict[str, Any] | None = absent()
    tool_call_id: str
    run_id: str


class ToolStart(CamelValue):
    """The agent has called a tool. One that a person has to approve runs only after that."""

    type: Literal["tool_start"] = "tool_start"
    name: str
    args: dict[str, Any] | None = absent()
    tool_call_id: str | None = absent()


class ToolEnd(CamelValue):
    """`failed`: the tool failed, was rejected or was cancelled."""

    type: Literal["tool_end"] = "tool_end"
    name: str
    result: str | None = absent()
    status: Literal["succeeded", "failed"] | None = absent()
    tool_call_id: str | None = absent()


class AgentProgress(CamelValue):
    """`partialOutput` is the end of the answer's text so far, `toolsInvoked` names the last tools.

    `runState` is what the agent itself tells of its progress or, while the run waits, what else it asks a person.
    """

    type: Literal["agent_progress"] = "agent_progress"
    run_id: str
    status: Literal["running", "awaiting_approval"]
    partial_output: str
    tools_invoked: list[str] | None = absent()
    run_state: dict[str, Any] | None = absent()
    correlation_id: str | None = absent()


class AgentSummary(CamelValue):
    type: Literal["agent_summary"] = "agent_summary"
    run_id: str
    trust: TrustSummary


class RunFailure(CamelValue):
    """`guardrail`: a module or the filter of the model's provider objected; `stage` and `module` say where and which.

    `stage` is that of the user's message, of a tool's result, or of the agent's answer.
    """

    type: Literal["runtime", "guardrail"]
    code: str
    message: str
    retryable: bool
    request_id: str
    retry_after_s: float | None = absent()
    stage: Literal["input", "tool_result", "output"] | None = absent()
    module: str | None = absent()

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
    type: Literal["error"] = "error"
    error: RunFailure


class Done(CamelValue):
    type: Literal["done"] = "done"
    run_id: str
    status: RunStatus
    conversation_id: str | None = absent()


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
    | Done
)


class DecidedRun(CamelValue):
    """The events of the run from the decision to its end or its next pause. `cut`: some are left out."""

    ok: Literal[True] = True
    events: list[RunEvent]
    cut: Literal[True] | None = absent()


class ResumedRun(CamelValue):
    """The run's events from its beginning. `cut`: some are left out."""

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
