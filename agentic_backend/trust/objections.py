"""The objections of guardrails to the texts of an exchange. Pure.

A module's own reason is written for admins and may quote a conversation, so that none of it is told.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from agentic_backend.errors import ContentFiltered
from agentic_backend.policy.hook_context import Point
from agentic_backend.protocol.messages import FinishReason
from agentic_backend.protocol.trust import Objection
from agentic_backend.trust.rows import TrustRows

Stage = Literal["input", "tool_result", "output"]

_STAGES: dict[str, Stage] = {
    Point.BEFORE_AI: "input",
    Point.TOOL_RESULT: "tool_result",
    Point.AFTER_AI: "output",
}


def objections_of(runs: Iterable[TrustRows]) -> list[Objection]:
    """Each objection once: of each run first those of modules, then that of the model's provider."""
    found = [objection for run in runs for objection in (*_of_modules(run), *_of_provider(run))]
    return list({one.model_dump_json(): one for one in found}.values())


def _of_modules(rows: TrustRows) -> Iterator[Objection]:
    for audit in rows.audits:
        if (stage := _STAGES.get(audit.point)) is not None and audit.is_objection:
            yield Objection(by="module", module=audit.module, stage=stage, action=audit.action)
    for failure in rows.failures:
        if (stage := _STAGES.get(failure.point)) is not None:
            yield Objection(by="module", module=failure.module, stage=stage, action="failed")


def _of_provider(rows: TrustRows) -> Iterator[Objection]:
    """A provider refuses what it is sent by an error, and what its model says by a finish reason."""
    error = rows.exchange.error
    if error is not None and error.code == ContentFiltered.code:
        yield Objection(by="provider", stage="input", action="blocked")
    if any(answer.metadata.finish_reason is FinishReason.CONTENT_FILTER for answer in rows.answers):
        yield Objection(by="provider", stage="output", action="blocked")
