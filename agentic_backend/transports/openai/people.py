"""What an exchange asks a person, as calls of functions that the client answers, and the answers as decisions. Pure.

A call's id names what was asked, with the hash of the arguments that were shown: an answer counts for just that.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from pydantic import ValidationError

from agentic_backend.errors import ApprovalNotFound, BadFrame
from agentic_backend.protocol.events import HumanRequest, HumanRequests
from agentic_backend.protocol.frames import Decision, HumanDecisions, first_problem
from agentic_backend.sessions.waiting.input_check import flaw

APPROVAL, QUESTION = "request_approval", "ask_person"
_MARK = 8
"""The digits of a mark."""
_IN_A_WORD = ("approve", "reject")


@dataclass(frozen=True, slots=True)
class PersonCall:
    """A call that a person answers."""

    id: str
    name: str
    arguments: str = field(repr=False)
    """JSON."""


def calls_of(exchange_id: str, asked: HumanRequests) -> list[PersonCall]:
    return [_call(exchange_id, request) for request in asked.requests]


def words_of(exchange_id: str, asked: HumanRequests) -> str:
    """The same in words, for people whose client knows no such calls.

    They end with a mark of what is asked: the same may be asked again, of which the earlier answer says nothing.
    """
    lines = [asked.title] if asked.title else []
    for request in asked.requests:
        if request.name is not None and request.call_id is not None:
            shown = json.dumps(request.args, ensure_ascii=False, indent=2)
            allowed = " or ".join(f'"{action}"' for action in request.allowed if action in _IN_A_WORD)
            lines.append(f"May `{request.name}` be called with this?\n\n```json\n{shown}\n```\n\nAnswer {allowed}.")
        else:
            lines.append(request.question or json.dumps(request.value, ensure_ascii=False))
            lines += [f"- {choice.id}: {choice.label}" for choice in request.choices or ()]
    marks = (call.id.removeprefix("call_")[:_MARK] for call in calls_of(exchange_id, asked))
    lines.append(f"(Request {', '.join(marks)})")
    return "\n\n".join(lines)


def decisions_of(exchange_id: str, asked: HumanRequests, answers: Mapping[str, str]) -> HumanDecisions:
    """What a person has answered, by the ids of the calls; call it in a thread.

    Raises ApprovalNotFound if one of these is not asked any more, and BadFrame if an answer is none.
    """
    by_call = {_call(exchange_id, request).id: request for request in asked.requests}
    decisions: list[Decision] = []
    replies: dict[str, Any] = {}
    for call_id, answer in answers.items():
        request = by_call.get(call_id)
        if request is None:
            raise ApprovalNotFound
        if request.call_id is not None:
            decisions.append(_decision(request, answer))
        else:
            replies[request.interrupt_id] = _reply(request, answer)
    return HumanDecisions(decisions=decisions, answers=replies)


def said_in_words(exchange_id: str, asked: HumanRequests, text: str) -> Mapping[str, str] | None:
    """The answer in a person's message to the one thing that is asked, by the id of its call; None if it is none."""
    if len(asked.requests) != 1:
        return None
    [request] = asked.requests
    word = text.strip().strip('."').lower()
    if request.call_id is not None and word not in _IN_A_WORD:
        return None
    return {_call(exchange_id, request).id: word if request.call_id is not None else text}


def _call(exchange_id: str, request: HumanRequest) -> PersonCall:
    named = json.dumps([exchange_id, request.interrupt_id, request.call_id, request.args_sha256])
    call_id = f"call_{sha256(named.encode()).hexdigest()[:32]}"
    if request.call_id is not None:
        told: dict[str, Any] = {"tool": request.name, "arguments": request.args, "allowed": request.allowed}
        name = APPROVAL
    else:
        choices = [choice.model_dump() for choice in request.choices or ()]
        told = {
            "question": request.question,
            "choices": choices or None,
            "answer_schema": request.response_schema,
            "value": request.value if request.question is None else None,
        }
        name = QUESTION
    told = {key: value for key, value in told.items() if value is not None}
    return PersonCall(call_id, name, json.dumps(told, ensure_ascii=False))


def _decision(request: HumanRequest, answer: str) -> Decision:
    action: Any = answer.strip().lower()
    told: dict[str, Any] = {"action": action} if action in _IN_A_WORD else _object(answer)
    shown = {"call_id": request.call_id, "args_sha256": request.args_sha256}
    try:
        return Decision.model_validate({**shown, **{key: told.get(key) for key in ("action", "message", "args")}})
    except ValidationError as error:
        raise BadFrame(f"messages: the answer to {APPROVAL}: {first_problem(error, 'answer')}") from None


def _json(answer: str) -> Any:
    """Raises ValueError and RecursionError, also for what has halves of characters, which can't be stored."""
    value = json.loads(answer)
    json.dumps(value, ensure_ascii=False).encode()
    return value


def _object(answer: str) -> dict[str, Any]:
    try:
        told = _json(answer)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or told.get("action") not in (*_IN_A_WORD, "edit"):
        expected = 'expected "approve", "reject", or an object with an `action` and what goes with it'
        raise BadFrame(f"messages: the answer to {APPROVAL}: {expected}")
    return told


def _reply(request: HumanRequest, answer: str) -> Any:
    """The answer as its schema has it: a text, unless that is no text, or names no type and takes none such."""
    schema = request.response_schema or {"type": "string"}
    if request.choices or schema.get("type") == "string" or ("type" not in schema and flaw(answer, schema) is None):
        return answer
    try:
        return _json(answer)
    except (ValueError, RecursionError):
        return answer
