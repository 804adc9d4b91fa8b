"""TrustSummary: what an answer rests on, computed from the rows of its exchange."""

from typing import Literal

from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.parts import Value, absent


class Statement(Value):
    """A sentence of the final answer, from character `start` up to `end` of its text.

    `rests_on` has the ids of tool calls and of sources: `cited` are those that the text itself names, `matched` those
    whose content has the statement's figures, names or words.
    """

    text: str
    start: int
    end: int
    support: Literal["cited", "matched", "none"]
    rests_on: list[str]


class ToolTrust(Value):
    """How one call of a tool ended, and on whose word it ran.

    `allowed_because` says in words why it ran, or why it did not, without anything that a model wrote.
    """

    call_id: str
    name: str
    agent_id: str
    outcome: Literal["ok", "failed", "rejected", "forbidden", "cancelled", "pending"]
    approval: Literal["approved", "edited", "rejected", "expired", "not_required"]
    decided_by: str | None = absent()
    allowed_because: str
    latency_ms: int | None = absent()


class TrustedSource(Value):
    """A source of the answer. `id` is unique in its summary; `call_id` is the tool call that found it."""

    id: str
    title: str | None = absent()
    href: str | None = absent()
    call_id: str | None = absent()


class Objection(Value):
    """What a module (guardrail) changed or blocked: where, and why in its own words, never the text itself."""

    module: str
    point: str
    action: Literal["modified", "blocked", "failed"]
    reason: str


class TrustSummary(Value):
    exchange_id: str
    status: ExchangeStatus
    statements: list[Statement]
    tools: list[ToolTrust]
    sources: list[TrustedSource]
    objections: list[Objection]
    cut: bool = False
    """Whether parts are missing because the exchange is too large."""
