"""Decisions count once, for exactly what was shown, while it waits; a frame counts as a whole or not at all."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from langgraph.types import Interrupt
from support.decisions import NOW, decision, requests_in, waiting_for

from agentic_backend.errors import AgenticError, ApprovalMismatch, ApprovalNotFound, BadFrame
from agentic_backend.protocol.frames import Decision, HumanDecisions
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.sessions.waiting.approvals import decided, expired, remaining
from agentic_backend.stores.records import ExchangeRecord
from agentic_backend.streaming.people.approval_requests import args_sha256
from agentic_backend.streaming.people.interrupts import human_requests

SECRET = "canary-5fd1"


def approval(number: int, **args: Any) -> Interrupt:
    value = {"type": "tool_approval", "tool_call_id": f"c{number}", "name": "send", "args": args, "description": ""}
    return Interrupt(value, id=f"i{number}")


QUESTION = Interrupt({"question": "Which?", "choices": ["left", "right"]}, id="q1")
CALLS = [approval(1, to="ann"), approval(2, to="bob", amount=2**53)]
WAITING = waiting_for([*CALLS, QUESTION])
SEND, PAY, WHICH = requests_in(WAITING)


def frame(*decisions: Decision, **answers: Any) -> HumanDecisions:
    return HumanDecisions(decisions=list(decisions), answers=answers)


def refused(error: type[AgenticError], payload: HumanDecisions, waiting: ExchangeRecord = WAITING, **given: Any) -> str:
    with pytest.raises(error) as caught:
        decided(waiting, payload, "ann", **{"at": NOW, **given})
    assert SECRET not in caught.value.content
    return caught.value.content


def test_a_decision_is_kept_with_who_when_what_and_on_which_arguments() -> None:
    payload = frame(decision(PAY, "edit", args={"to": "zoe"}), decision(SEND, "reject", message="Not her."), q1="left")
    edit, reject, answer = decided(WAITING, payload, "ann", NOW)
    assert edit.model_dump(exclude_none=True) == {
        "interrupt_id": "i2",
        "action": "edit",
        "by": "ann",
        "at": NOW,
        "call_id": "c2",
        "name": "send",
        "args": {"to": "bob", "amount": 2**53},
        "args_sha256": args_sha256({"to": "bob", "amount": 2**53}),
        "edited_args": {"to": "zoe"},
    }
    assert (reject.action, reject.message, reject.args) == ("reject", "Not her.", {"to": "ann"})
    assert (answer.action, answer.interrupt_id, answer.answer, answer.by) == ("answer", "q1", "left", "ann")
    assert remaining(WAITING, [edit, reject, answer]).requests == []


def test_a_frame_may_settle_a_part_and_nothing_counts_twice() -> None:
    made = decided(WAITING, frame(decision(PAY)), "ann", NOW)
    assert remaining(WAITING, made).requests == [SEND, WHICH]
    later = replace(WAITING, decisions=made)
    refused(ApprovalNotFound, frame(decision(PAY)), later)
    refused(ApprovalNotFound, frame(decision(SEND), decision(PAY)), later)
    rest = decided(later, frame(decision(SEND), q1="right"), "ann", NOW)
    assert remaining(later, rest).requests == []
    refused(ApprovalNotFound, frame(q1="right"), replace(later, decisions=[*made, *rest]))


@pytest.mark.parametrize(
    ("payload", "content"),
    [
        (frame(), "payload: expected a decision or an answer"),
        (frame(decision(SEND), decision(SEND, "reject")), "payload.decisions.1.call_id: decided on twice"),
        (frame(decision(SEND, "edit")), "payload.decisions.0.args: goes with 'edit', and only with that"),
        (frame(decision(SEND, args={"to": SECRET})), "payload.decisions.0.args: goes with 'edit', and only with that"),
        (frame(decision(SEND, message=SECRET)), "payload.decisions.0.message: only goes with 'reject'"),
        (
            frame(decision(SEND, "edit", args={}, message=SECRET)),
            "payload.decisions.0.message: only goes with 'reject'",
        ),
        (frame(q1=SECRET), "payload.answers.q1: expected the id of one of the choices"),
        (frame(q1=["left"]), "payload.answers.q1: expected the id of one of the choices"),
        (frame(q1=None), "payload.answers.q1: expected the id of one of the choices"),
        (
            frame(decision(SEND, "edit", args={"n": 2**63})),
            "payload.decisions.0.args: expected numbers of at most 64 bits; what is larger can be sent as a text",
        ),
        (
            frame(decision(SEND, "edit", args=json.loads('{"n":' * 101 + "1" + "}" * 101))),
            "payload.decisions.0.args: expected less than 100 levels of lists and objects within one another",
        ),
    ],
)
def test_a_frame_that_is_not_in_order_is_refused_by_the_name_of_its_field(
    payload: HumanDecisions, content: str
) -> None:
    assert refused(BadFrame, payload) == content


def test_only_what_is_allowed_can_be_decided() -> None:
    value = {"action_requests": [{"name": "send", "args": {}}], "review_configs": []}
    waiting = waiting_for([Interrupt(value, id="i1")])
    [request] = requests_in(waiting)
    assert "action: not allowed for this call; allowed: none" in refused(BadFrame, frame(decision(request)), waiting)


def test_an_edit_and_an_answer_meet_the_schema_of_their_own_interrupt() -> None:
    args = {"type": "object", "properties": {"to": {"type": "string", "pattern": "^[a-z]+$"}}, "required": ["to"]}
    waiting = with_schemas({"i1": args, "q1": {"enum": ["left"]}})
    edited = frame(decision(SEND, "edit", args={"to": SECRET}))
    assert refused(BadFrame, edited, waiting).endswith(".args.to: does not meet the schema's 'pattern': \"^[a-z]+$\"")
    assert refused(BadFrame, frame(q1="right"), waiting).startswith("payload.answers.q1: does not meet")
    assert decided(waiting, frame(decision(SEND, "edit", args={"to": "zoe"}), q1="left"), "ann", NOW)


def with_schemas(schemas: dict[str, dict[str, Any]]) -> ExchangeRecord:
    """What waits, with the schemas of its requests by interrupt id."""
    assert WAITING.pending is not None
    requests = [
        request.model_copy(update={"response_schema": schemas.get(request.interrupt_id)})
        for request in WAITING.pending.requests
    ]
    return replace(WAITING, pending=WAITING.pending.model_copy(update={"requests": requests}))


@pytest.mark.parametrize("later", [timedelta(0), timedelta(days=1)])
def test_what_has_expired_waits_no_more(later: timedelta) -> None:
    assert WAITING.deadline is not None
    refused(ApprovalNotFound, frame(decision(SEND)), at=WAITING.deadline + later)
    assert decided(WAITING, frame(decision(SEND)), "ann", WAITING.deadline - timedelta(microseconds=1))


@pytest.mark.parametrize("status", [status for status in ExchangeStatus if status != "awaiting_human"])
def test_nothing_waits_in_an_exchange_that_does_not_wait(status: ExchangeStatus) -> None:
    refused(ApprovalNotFound, frame(decision(SEND)), replace(WAITING, status=status))


def test_what_nobody_decided_in_time_counts_as_rejected() -> None:
    waiting = waiting_for(CALLS)
    made = decided(waiting, frame(decision(SEND)), "ann", NOW)
    [late] = expired(replace(waiting, decisions=made), NOW) or []
    assert (late.action, late.by, late.call_id, late.args_sha256) == ("expire", None, "c2", PAY.args_sha256)
    assert late.args == {"to": "bob", "amount": 2**53}


def test_a_question_can_not_be_rejected() -> None:
    assert expired(WAITING, NOW) is None
    unrejectable = {"action_requests": [{"name": "send", "args": {}}], "review_configs": []}
    assert expired(waiting_for([Interrupt(unrejectable, id="i1")]), NOW) is None


CHANGES: list[Callable[[Any, dict[str, Any]], None]] = [
    lambda chance, d: d.update(args_sha256=args_sha256({"to": chance.choice(["bob", "Ann", "ann ", SECRET])})),
    lambda chance, d: d.update(args_sha256="".join(chance.sample(d["args_sha256"], 64))),
    lambda chance, d: d.update(args_sha256=f"{int(d['args_sha256'], 16) ^ (1 << chance.randrange(256)):064x}"),
    lambda chance, d: d.update(call_id=chance.choice(["c0", "C1", "c1 ", "i1", "i1:0", "q1", SECRET])),
    lambda chance, d: d.update(args_sha256=args_sha256({})),
    lambda chance, d: d.update(action="approve", args={"to": SECRET}),
    lambda chance, d: d.update(action="edit", args=None),
    lambda chance, d: d.update(action="edit", args={"to": SECRET}, message=SECRET),
    lambda chance, d: d.update(action="reject", args={"to": SECRET}),
]


def test_of_a_thousand_tampered_replayed_and_reordered_frames_none_counts() -> None:
    chance, tried = random.Random(7), 0
    for _ in range(1_000):
        interrupts = [approval(number, to=f"person-{number}") for number in range(1, chance.randint(2, 6))]
        waiting = waiting_for(interrupts)
        good = [decision(request).model_dump() for request in requests_in(waiting)]
        chance.shuffle(good)
        kind = chance.choice(["tampered", "replayed", "swapped", "doubled", "late"])
        at = NOW
        if kind == "tampered":
            chance.choice(CHANGES)(chance, chance.choice(good))
        elif kind == "replayed":
            made = decided(waiting, frame(Decision(**chance.choice(good))), "ann", NOW)
            waiting = replace(waiting, decisions=made)
        elif kind == "swapped" and len(good) > 1:
            good[0]["args_sha256"], good[1]["args_sha256"] = good[1]["args_sha256"], good[0]["args_sha256"]
        elif kind in ("doubled", "swapped"):
            good.append(chance.choice(good))
        else:
            at += timedelta(hours=chance.randint(1, 9))
        with pytest.raises((BadFrame, ApprovalNotFound, ApprovalMismatch)) as caught:
            decided(waiting, frame(*[Decision(**one) for one in good]), "ann", at)
        assert SECRET not in caught.value.content
        tried += 1
    assert tried == 1_000


def test_every_order_of_good_decisions_counts_each_for_its_own_call() -> None:
    chance = random.Random(8)
    for _ in range(200):
        waiting = waiting_for([approval(number, to=f"person-{number}") for number in range(6)])
        requests = requests_in(waiting)
        chance.shuffle(requests := list(requests))
        made = decided(waiting, frame(*[decision(request) for request in requests]), "ann", NOW)
        assert [(one.call_id, one.args) for one in made] == [(request.call_id, request.args) for request in requests]


def test_what_waits_is_what_was_asked() -> None:
    assert WAITING.pending == human_requests([*CALLS, QUESTION])
    assert remaining(WAITING, ()) == WAITING.pending
