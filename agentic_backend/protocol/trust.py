"""TrustSummary: what an answer rests on, computed from the rows of its exchange."""

from typing import Literal

from pydantic import Field

from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.parts import Value, absent


class Ground(Value):
    """What a statement rests on."""

    id: str
    """The `id` of a tool call or of a source of the same summary."""
    by: Literal["citation", "match"]
    """`citation` where the statement itself names the source, `match` where its figures, names or words occur in the
    source or in the tool's result.
    """


class Statement(Value):
    """A sentence, a list item or a table row of the answer."""

    text: str
    """Its words."""
    start: int
    """Where it begins in the texts of the answer's message, joined by line feeds, in Unicode characters (code points).
    """
    end: int
    """Where it ends, counted likewise."""
    rests_on: list[Ground]
    """Empty where nothing was found: these are the model's own words."""


class ToolTrust(Value):
    """How one call of a tool ended, and on whose word it ran."""

    id: str
    """Unique in its summary."""
    call_id: str
    """The model's own id, which may come again."""
    name: str
    """The tool."""
    agent_id: str
    """The agent that called it."""
    outcome: Literal["ok", "failed", "rejected", "forbidden", "cancelled", "pending"]
    """How it ended."""
    approval: Literal["approved", "edited", "rejected", "expired", "awaited", "not_required", "not_recorded"]
    """What a person has decided, where one had to."""
    decided_by: str | None = absent()
    """The person who decided."""
    needs: list[str] = Field(default_factory=list)
    """The permissions that the tool needed when it was called."""
    allowed_because: str
    """Why the call ran, or why it did not, in words; it has no text of the conversation."""
    in_background: bool = False
    """Whether it went on after its call was answered."""
    latency_ms: int | None = absent()
    """The time from the call to its result, in milliseconds."""


class TrustedSource(Value):
    """A source of the answer."""

    id: str
    """Unique in its summary."""
    number: int | None = absent()
    """The one by which the answer cites it, such as `[1]`."""
    title: str | None = absent()
    """Its title."""
    href: str | None = absent()
    """Its address."""
    found_by: str | None = absent()
    """The `id` of the tool call that found it, if one did."""


class Objection(Value):
    """What a guardrail changed or blocked, or could not check. It says nothing of the text itself."""

    by: Literal["module", "provider"]
    """The guardrail: a module, or the filter of the model's provider."""
    module: str | None = absent()
    """The module's name."""
    stage: Literal["input", "tool_result", "output"]
    """Where: the user's message, a tool's result, or the agent's answer."""
    action: Literal["modified", "blocked", "failed"]
    """What it did; `failed` where it could not check."""


class TrustSummary(Value):
    """What an answer rests on."""

    exchange_id: str
    """The exchange that was answered."""
    status: ExchangeStatus
    """The exchange's."""
    answer_rank: int | None = absent()
    """The rank of the message whose statements these are; absent as long as there is no answer."""
    statements: list[Statement]
    """The answer's, in order."""
    tools: list[ToolTrust]
    """The calls of tools, in order."""
    sources: list[TrustedSource]
    """What the agent found and cited."""
    objections: list[Objection]
    """The objections of guardrails, in order."""
    cut: bool = False
    """Whether parts are missing, because the exchange is too large."""
