"""TrustSummary: what an answer rests on, computed from the rows of its exchange."""

from typing import Literal

from pydantic import Field

from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.parts import Value, absent


class Ground(Value):
    """What a statement rests on: the `id` of a tool call or of a source of the same summary.

    `by` is `citation` where the statement itself names the source, `match` where its figures, names or words occur in
    the source or in the tool's result.
    """

    id: str
    by: Literal["citation", "match"]


class Statement(Value):
    """A sentence, a list item or a table row of the answer.

    `start` and `end` are its place in the texts of the answer's message, joined by line feeds, counted in Unicode
    characters (code points). `rests_on` is empty where nothing was found: these are the model's own words.
    """

    text: str
    start: int
    end: int
    rests_on: list[Ground]


class ToolTrust(Value):
    """How one call of a tool ended, and on whose word it ran.

    `id` is unique in its summary; a `call_id` is the model's and may come again. `allowed_because` says in words why
    the call ran, or why it did not; it has no text of the conversation. `needs` are the permissions that the tool
    needed when it was called.
    """

    id: str
    call_id: str
    name: str
    agent_id: str
    outcome: Literal["ok", "failed", "rejected", "forbidden", "cancelled", "pending"]
    approval: Literal["approved", "edited", "rejected", "expired", "awaited", "not_required", "not_recorded"]
    decided_by: str | None = absent()
    needs: list[str] = Field(default_factory=list)
    allowed_because: str
    in_background: bool = False
    latency_ms: int | None = absent()


class TrustedSource(Value):
    """A source of the answer. `id` is unique in its summary.

    `number` is the one by which the answer cites it, such as `[1]`; `found_by` is the `id` of the tool call that found
    it, if one did.
    """

    id: str
    number: int | None = absent()
    title: str | None = absent()
    href: str | None = absent()
    found_by: str | None = absent()


class Objection(Value):
    """What a guardrail changed or blocked, or could not check: a module, or the filter of the model's provider.

    `stage` is where: the user's message, a tool's result, or the agent's answer. It says nothing of the text itself.
    """

    by: Literal["module", "provider"]
    module: str | None = absent()
    stage: Literal["input", "tool_result", "output"]
    action: Literal["modified", "blocked", "failed"]


class TrustSummary(Value):
    """`answer_rank` is the rank of the message whose statements these are; None as long as there is no answer.

    `cut` says that parts are missing, because the exchange is too large.
    """

    exchange_id: str
    status: ExchangeStatus
    answer_rank: int | None = absent()
    statements: list[Statement]
    tools: list[ToolTrust]
    sources: list[TrustedSource]
    objections: list[Objection]
    cut: bool = False
