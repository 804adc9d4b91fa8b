"""Checks people's decisions on a waiting exchange, and computes which requests are still open. Pure.

A decision counts once, for exactly the arguments that were shown, while its request waits. Invariant: a frame counts
as a whole or not at all. The caller has checked that the exchange is the user's.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from agentic_backend.agents.state.clean_values import clean_value
from agentic_backend.errors import ApprovalMismatch, ApprovalNotFound, BadFrame
from agentic_backend.policy.hooks.decided_words import keys_of
from agentic_backend.protocol.events import HumanRequest, HumanRequests
from agentic_backend.protocol.frames import Decision, HumanDecisions
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.sessions.waiting.input_check import flaw
from agentic_backend.stores.records import ExchangeRecord, HumanDecision
from agentic_backend.streaming.content.conversion import plain


def decided(waiting: ExchangeRecord, payload: HumanDecisions, by: str, at: datetime) -> list[HumanDecision]:
    """The decisions in `payload` of the user `by` on `waiting`, in the order of the payload.

    What a person enters is checked against the schema that its request shows; call this in a thread.

    Raises BadFrame, which names the field, ApprovalNotFound if no open request matches a decision, and ApprovalMismatch
    if a decision is about other arguments than its request.
    """
    if not payload.decisions and not payload.answers:
        raise BadFrame("payload: expected a decision or an answer")
    called = [decision.call_id for decision in payload.decisions]
    for index, call_id in enumerate(called):
        if call_id in called[:index]:
            raise BadFrame(f"payload.decisions.{index}.call_id: decided on twice")
    if waiting.deadline is not None and at >= waiting.deadline:
        raise ApprovalNotFound
    open_requests = remaining(waiting, ()).requests
    calls = {request.call_id: request for request in open_requests if request.call_id is not None}
    questions = {request.interrupt_id: request for request in open_requests if request.call_id is None}
    approvals = [
        _approval(f"payload.decisions.{index}", decision, calls.get(decision.call_id), by, at)
        for index, decision in enumerate(payload.decisions)
    ]
    answers = [_answer(answer, questions.get(interrupt_id), by, at) for interrupt_id, answer in payload.answers.items()]
    return approvals + answers


def is_choice(waiting: ExchangeRecord, decision: HumanDecision) -> bool:
    """Whether the decision takes one of the choices that its request offers."""
    request = _request_of(waiting, decision)
    return decision.action == "answer" and request is not None and bool(request.choices)


def made_up_keys(waiting: ExchangeRecord, decision: HumanDecision) -> list[str]:
    """The keys in what a person has said that its request neither names nor shows."""
    request = _request_of(waiting, decision)
    return keys_of(decision, request.response_schema if request is not None else None)


def recheck(waiting: ExchangeRecord, decisions: Sequence[HumanDecision]) -> None:
    """Check once more what modules have changed in `decisions`, which have the order of `decided`; call it in a thread.

    Raises BadFrame, which names the field.
    """
    for index, decision in enumerate(decisions):
        request = _request_of(waiting, decision)
        is_answer = decision.action == "answer"
        if request is None or not (is_answer or decision.action == "edit"):
            continue
        field = f"payload.answers.{decision.interrupt_id}" if is_answer else f"payload.decisions.{index}.args"
        try:
            _check(field, decision.words, request.response_schema)
        except BadFrame as error:
            raise BadFrame(f"{error.content}, once modules have changed it") from None


def _request_of(waiting: ExchangeRecord, decision: HumanDecision) -> HumanRequest | None:
    place = (decision.interrupt_id, decision.call_id)
    requests = remaining(waiting, ()).requests
    return next((request for request in requests if (request.interrupt_id, request.call_id) == place), None)


def expired(waiting: ExchangeRecord, at: datetime) -> list[HumanDecision] | None:
    """Rejections of all open requests; None if one of them, such as a question, can't be rejected."""
    requests = remaining(waiting, ()).requests
    if any("reject" not in request.allowed for request in requests):
        return None
    return [_decision_on(request, "expire", at) for request in requests]


def remaining(waiting: ExchangeRecord, decisions: Iterable[HumanDecision]) -> HumanRequests:
    """The requests of `waiting` that are still open after `decisions`; `requests` is empty if none is."""
    pending = waiting.pending
    if pending is None or waiting.status is not ExchangeStatus.AWAITING_HUMAN:
        return HumanRequests(requests=[])
    settled = {(decision.interrupt_id, decision.call_id) for decision in [*waiting.decisions, *decisions]}
    rest = [request for request in pending.requests if (request.interrupt_id, request.call_id) not in settled]
    return pending.model_copy(update={"requests": rest})


def _approval(field: str, decision: Decision, request: HumanRequest | None, by: str, at: datetime) -> HumanDecision:
    if request is None:
        raise ApprovalNotFound
    if decision.args_sha256 != request.args_sha256:
        raise ApprovalMismatch
    if decision.action not in request.allowed:
        raise BadFrame(f"{field}.action: not allowed for this call; {_told(request.allowed)}")
    if decision.message is not None and decision.action != "reject":
        raise BadFrame(f"{field}.message: only goes with 'reject'")
    if (decision.args is not None) != (decision.action == "edit"):
        raise BadFrame(f"{field}.args: goes with 'edit', and only with that")
    if decision.args is not None:
        _check(f"{field}.args", decision.args, request.response_schema)
    return _decision_on(request, decision.action, at, by=by, edited_args=decision.args, message=decision.message)


def _decision_on(
    request: HumanRequest, action: Literal["approve", "reject", "edit", "expire"], at: datetime, **more: Any
) -> HumanDecision:
    """A decision on the call of `request`, with that call as it was shown."""
    return HumanDecision(
        interrupt_id=request.interrupt_id,
        action=action,
        at=at,
        call_id=request.call_id,
        name=request.name,
        args=request.args,
        args_sha256=request.args_sha256,
        **more,
    )


def _answer(answer: Any, request: HumanRequest | None, by: str, at: datetime) -> HumanDecision:
    if request is None:
        raise ApprovalNotFound
    field = f"payload.answers.{request.interrupt_id}"
    choices = [choice.id for choice in request.choices or ()]
    if choices and not (isinstance(answer, str) and answer in choices):
        raise BadFrame(f"{field}: expected the id of one of the choices")
    _check(field, answer, request.response_schema)
    return HumanDecision(interrupt_id=request.interrupt_id, action="answer", by=by, at=at, answer=answer)


def _check(field: str, value: Any, schema: Mapping[str, Any] | None) -> None:
    """Raise BadFrame if `value` can't be stored unchanged, or does not match `schema`."""
    # What a person says may have controls, which the form of what graphs show has not.
    form = plain({"value": value})
    if "_unreadable" in form:
        raise BadFrame(f"{field}: expected less than 100 levels of lists and objects within one another")
    if form != clean_value({"value": value}):
        raise BadFrame(f"{field}: expected numbers of at most 64 bits; what is larger can be sent as a text")
    if schema is not None and (found := flaw(value, schema)):
        raise BadFrame(f"{field}{found}")


def _told(allowed: Sequence[str]) -> str:
    return f"allowed: {', '.join(allowed) or 'none'}"
