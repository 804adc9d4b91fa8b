"""The values that a store keeps beside sessions and messages: exchanges, what people decided in them, their KPIs."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from agentic_backend.protocol.events import ErrorInfo, HumanRequests, PartialText
from agentic_backend.protocol.messages import ExchangeStatus, Timestamp, TokenUsage
from agentic_backend.protocol.parts import Value, absent

CHECKPOINT_VERSION = 1


class CheckpointKind(StrEnum):
    """At which boundary of a run its checkpoint was taken; `FINAL_RESULT` has nothing to go on from any more."""

    TOOL_CALL = "tool_call"
    TOOL_COMPLETION = "tool_completion"
    APPROVAL_PENDING = "approval_pending"
    RESUME_REQUEST = "resume_request"
    DRAINED = "drained"
    FINAL_RESULT = "final_result"


class CheckpointRecord(Value):
    """What is told of an exchange's last checkpoint. `request_id` correlates it with the log."""

    version: int = CHECKPOINT_VERSION
    kind: CheckpointKind
    at: Timestamp
    exchange_id: str
    request_id: str
    tool: str | None = absent()
    partial_output: str | None = absent()


class HumanDecision(Value):
    """One decision of a person, kept for good: who, when, what, and on which arguments.

    `args` are those that were shown, `edited_args` what an edit put in their place. `by` is None where the request
    expired before anybody decided; it then counts as rejected.
    """

    interrupt_id: str
    action: Literal["approve", "reject", "edit", "answer", "expire"]
    by: str | None = absent()
    at: Timestamp
    call_id: str | None = absent()
    name: str | None = absent()
    args: dict[str, Any] | None = absent()
    args_sha256: str | None = absent()
    edited_args: dict[str, Any] | None = absent()
    message: str | None = absent()
    answer: Any = absent()


class ExchangeRecord(Value):
    """One exchange as stored.

    While it runs, `owner` is the instance that runs it; `partial` is the text that was being written about a second
    ago. While it waits, `pending` is all that it asked for when it paused, of which `decisions` settle some, and
    `deadline` is when the rest expires; that of one that runs is an instance's of an earlier version, which moves it
    while it lives. `ran_ms` and `first_token_ms` are those up to its last pause. `last_seq` is the seq of the last
    event when it paused, or has ended, and while it runs the beginning of its owner's epoch. `runtime_context` is what
    the client told the agent, for whoever goes on with the exchange.
    """

    id: str
    session_id: str
    user_id: str
    agent_id: str
    status: ExchangeStatus = ExchangeStatus.RUNNING
    client_exchange_id: str | None = absent()
    request_id: str
    first_rank: int = 0
    started_at: Timestamp
    ended_at: Timestamp | None = absent()
    last_seq: int = 0
    usage: TokenUsage = Field(default_factory=TokenUsage)
    error: ErrorInfo | None = absent()
    runtime_context: dict[str, Any] = Field(default_factory=dict, repr=False)
    owner: str | None = absent()
    deadline: Timestamp | None = absent()
    partial: list[PartialText] = Field(default_factory=list)
    pending: HumanRequests | None = absent()
    decisions: list[HumanDecision] = Field(default_factory=list)
    checkpoint: CheckpointRecord | None = absent()
    ran_ms: int = 0
    first_token_ms: int | None = absent()
    resumes: str | None = absent()


class KpiRecord(Value):
    """What one exchange cost. Times are milliseconds from the ask; `session_id` is None in query mode."""

    exchange_id: str
    session_id: str | None
    user_id: str
    agent_id: str
    status: ExchangeStatus
    started_at: Timestamp
    latency_ms: int
    first_token_ms: int | None
    usage: TokenUsage
    model: str | None
    tools: list[str]
    failed_tools: int
