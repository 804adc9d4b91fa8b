"""A person's decisions on the requests of a paused graph, as frames and as the server's records."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.types import Interrupt

from agentic_backend.protocol.events import HumanRequest
from agentic_backend.protocol.frames import Decision, HumanDecisions
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.sessions.waiting.approvals import decided
from agentic_backend.stores.records import ExchangeRecord, HumanDecision
from agentic_backend.streaming.people.interrupts import human_requests

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def waiting_for(interrupts: Sequence[Interrupt]) -> ExchangeRecord:
    """An exchange that waits for a person until one hour after `NOW`."""
    return ExchangeRecord(
        id="e1",
        session_id="s1",
        user_id="ann",
        agent_id="agent",
        request_id="r1",
        started_at=NOW,
        status=ExchangeStatus.AWAITING_HUMAN,
        pending=human_requests(interrupts),
        deadline=NOW + timedelta(hours=1),
    )


def requests_in(waiting: ExchangeRecord) -> list[HumanRequest]:
    assert waiting.pending is not None
    return waiting.pending.requests


def decision(request: HumanRequest, action: Any = "approve", **given: Any) -> Decision:
    assert request.call_id is not None and request.args_sha256 is not None
    return Decision(call_id=request.call_id, args_sha256=request.args_sha256, action=action, **given)


def decide(interrupts: Sequence[Interrupt], *actions: Any) -> list[HumanDecision]:
    """Decide on all waiting calls, in order: `"approve"`, `("reject", message)` or `("edit", args)`."""
    waiting = waiting_for(interrupts)
    frame = HumanDecisions(decisions=list(_decisions(requests_in(waiting), actions)))
    return decided(waiting, frame, "ann", NOW)


def _decisions(requests: Iterable[HumanRequest], actions: Sequence[Any]) -> Iterable[Decision]:
    for request, action in zip(requests, actions, strict=True):
        match action:
            case ("edit", args):
                yield decision(request, "edit", args=args)
            case ("reject", message):
                yield decision(request, "reject", message=message)
            case _:
                yield decision(request, action)
