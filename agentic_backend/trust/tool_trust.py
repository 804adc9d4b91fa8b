"""How the calls of an exchange's tools ended, and on whose word they ran. Pure."""

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from agentic_backend.exchange.end.ending import LEFT_OPEN
from agentic_backend.protocol.events import HumanRequest
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.trust import ToolTrust
from agentic_backend.stores.protocol.trail import ToolCallRecord
from agentic_backend.stores.records import ExchangeRecord, HumanDecision

Outcome = Literal["ok", "failed", "rejected", "forbidden", "cancelled", "pending"]
Approval = Literal["approved", "edited", "rejected", "expired", "awaited", "not_required", "not_recorded"]
Asked = TypeVar("Asked", HumanRequest, HumanDecision)

_APPROVALS: dict[str, Approval] = {
    "approve": "approved",
    "edit": "edited",
    "reject": "rejected",
    "expire": "expired",
}
_OUTCOMES: dict[str, Outcome] = {
    "pending": "pending",
    "success": "ok",
    "error": "failed",
    "rejected": "rejected",
    "forbidden": "forbidden",
}


def tools_of(exchange: ExchangeRecord, calls: Sequence[ToolCallRecord], first_number: int = 1) -> list[ToolTrust]:
    """`calls` are those of the exchange, in their order; they are numbered from `first_number` on."""
    is_waiting = exchange.status is ExchangeStatus.AWAITING_HUMAN and exchange.pending is not None
    requests = list(exchange.pending.requests) if is_waiting and exchange.pending is not None else []
    decisions = [one for one in exchange.decisions if one.action in _APPROVALS]
    tools: list[ToolTrust] = []
    for number, call in enumerate(calls, first_number):
        decision = _take(decisions, call)
        is_awaited = decision is None and call.state == "pending" and _take(requests, call) is not None
        tools.append(_tool(f"t{number}", call, decision, is_awaited=is_awaited))
    return tools


def _take(asked: list[Asked], call: ToolCallRecord) -> Asked | None:
    """What a person was asked, or has decided, about `call`; takes it out, for a model may use a call's id again.

    An agent that asks in a form of its own does not name the call: then its tool and its arguments tell.
    """
    of_tool = [one for one in asked if one.name == call.name]
    found = next((one for one in of_tool if one.call_id == call.call_id), None)
    if found is None:
        found = next((one for one in of_tool if call.args in (one.args, _edited(one))), None)
    if found is not None:
        asked.remove(found)
    return found


def _edited(asked: HumanRequest | HumanDecision) -> Any:
    return asked.given.edited_args if isinstance(asked, HumanDecision) else None


def _tool(id: str, call: ToolCallRecord, decision: HumanDecision | None, *, is_awaited: bool) -> ToolTrust:
    outcome = _outcome(call, decision)
    approval = _approval(call, decision, is_awaited=is_awaited)
    return ToolTrust(
        id=id,
        call_id=call.call_id,
        name=call.name,
        agent_id=call.agent_id,
        outcome=outcome,
        approval=approval,
        decided_by=decision.by if decision is not None else call.approved_by,
        needs=call.allowance.needs if call.allowance is not None else [],
        allowed_because=_because(call, outcome, approval),
        in_background=call.reported_in is not None or call.runs_on is not None,
        latency_ms=call.duration_ms,
    )


def _outcome(call: ToolCallRecord, decision: HumanDecision | None) -> Outcome:
    if decision is not None and decision.action in ("reject", "expire"):
        return "rejected"
    return "cancelled" if call.state == "error" and call.error in LEFT_OPEN else _OUTCOMES[call.state]


def _approval(call: ToolCallRecord, decision: HumanDecision | None, *, is_awaited: bool) -> Approval:
    if decision is not None:
        return _APPROVALS[decision.action]
    if is_awaited:
        return "awaited"
    if call.approved_by is not None:
        return "approved"
    return "not_recorded" if call.allowance is None else "not_required"


def _because(call: ToolCallRecord, outcome: Outcome, approval: Approval) -> str:
    if outcome == "forbidden":
        return call.error or "The user lacks a permission that the tool needs."
    match approval:
        case "approved":
            return _and_permissions(call, "The user approved of the call.")
        case "edited":
            return _and_permissions(call, "The user changed its arguments and approved of it.")
        case "rejected":
            return "The user rejected the call."
        case "expired":
            return "Nobody decided in time."
        case "awaited":
            return "The call waits for a person's decision."
        case "not_required":
            return _and_permissions(call, _unasked(call))
        case "not_recorded":
            return "Not recorded."


def _unasked(call: ToolCallRecord) -> str:
    assert call.allowance is not None
    agent = f"the agent '{call.allowance.agent_id}'"
    if call.allowance.requires_approval:
        return f"The settings of {agent} require approval of this tool, but its own code called it without asking."
    return f"The settings of {agent} don't require approval of this tool."


def _and_permissions(call: ToolCallRecord, reason: str) -> str:
    allowance = call.allowance
    if allowance is None or not allowance.needs:
        return reason
    needed = ", ".join(allowance.needs)
    if allowance.everybody_may:
        return f"{reason} It needs {needed}, which this server gives to every user."
    return f"{reason} It needs {needed}, which the user's roles give."
