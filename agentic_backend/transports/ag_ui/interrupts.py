"""What an exchange asks a person, as interrupts, and the entries of `resume` as decisions. Pure.

An interrupt's id has the hash of the arguments that were shown: an answer counts for just that.
"""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from pydantic import ValidationError

from agentic_backend.errors import ApprovalNotFound, BadFrame
from agentic_backend.protocol.events import HumanRequest, HumanRequests
from agentic_backend.protocol.frames import Decision, HumanDecisions, first_problem
from agentic_backend.transports.ag_ui.bodies import ResumeEntry
from agentic_backend.transports.ag_ui.events import Interrupt, Json
from agentic_backend.transports.ag_ui.told_messages import tool_call_id_of


def interrupts_of(exchange_id: str, asked: HumanRequests) -> list[Interrupt]:
    expires_at = None if asked.expires_at is None else asked.model_dump(mode="json")["expires_at"]
    return [_interrupt(exchange_id, request, asked.title, expires_at) for request in asked.requests]


def decisions_of(exchange_id: str, asked: HumanRequests, entries: Sequence[ResumeEntry]) -> HumanDecisions | None:
    """What a person has decided; None if they want no answer any more, as a question can't be rejected.

    Raises ApprovalNotFound if one of the entries is about nothing that waits, and BadFrame if a payload is no answer.
    """
    by_id = {_id(exchange_id, request): request for request in asked.requests}
    decisions: list[Decision] = []
    answers: dict[str, Any] = {}
    for number, entry in enumerate(entries):
        request = by_id.get(entry.interrupt_id)
        if request is None:
            raise ApprovalNotFound
        if request.call_id is not None:
            decisions.append(_decision(f"resume.{number}.payload", request, entry))
        elif entry.status == "cancelled":
            return None
        else:
            answers[request.interrupt_id] = entry.payload
    return HumanDecisions(decisions=decisions, answers=answers)


def _id(exchange_id: str, request: HumanRequest) -> str:
    named = json.dumps([exchange_id, request.interrupt_id, request.call_id, request.args_sha256])
    return sha256(named.encode()).hexdigest()[:32]


def _interrupt(exchange_id: str, request: HumanRequest, title: str | None, expires_at: str | None) -> Interrupt:
    is_call = request.call_id is not None
    shown: Json = {"title": title, "value": request.value}
    if is_call:
        shown |= {"name": request.name, "args": request.args, "allowed": request.allowed}
    elif request.choices:
        shown["choices"] = [choice.model_dump() for choice in request.choices]
    return Interrupt(
        id=_id(exchange_id, request),
        reason="tool_call" if is_call else "input_required",
        message=request.question or title,
        tool_call_id=tool_call_id_of(exchange_id, request.call_id) if request.call_id is not None else None,
        response_schema=_approval_schema(request) if is_call else _answer_schema(request),
        expires_at=expires_at,
        metadata={name: value for name, value in shown.items() if value is not None} or None,
    )


def _approval_schema(request: HumanRequest) -> Json:
    fields: Json = {"approved": {"type": "boolean"}}
    if "reject" in request.allowed:
        fields["reason"] = {"type": "string", "description": "What the agent is told of a rejection."}
    if "edit" in request.allowed:
        fields["editedArgs"] = request.response_schema or {"type": "object"}
    return {"type": "object", "properties": fields, "required": ["approved"]}


def _answer_schema(request: HumanRequest) -> Json | None:
    if request.choices:
        return {"type": "string", "enum": [choice.id for choice in request.choices]}
    return request.response_schema


def _decision(field: str, request: HumanRequest, entry: ResumeEntry) -> Decision:
    payload = {"approved": False} if entry.status == "cancelled" else entry.payload
    approved = payload.get("approved") if isinstance(payload, dict) else None
    if not isinstance(payload, dict) or not isinstance(approved, bool):
        raise BadFrame(f"{field}: expected an object with `approved`, true or false")
    told: Json = {"call_id": request.call_id, "args_sha256": request.args_sha256}
    edited = payload.get("editedArgs")
    if not approved:
        told |= {"action": "reject", "message": payload.get("reason") or None}
    elif edited is not None:
        told |= {"action": "edit", "args": edited}
    else:
        told |= {"action": "approve"}
    try:
        return Decision.model_validate(told)
    except ValidationError as error:
        raise BadFrame(f"{field}: {first_problem(error, 'decision')}") from None
