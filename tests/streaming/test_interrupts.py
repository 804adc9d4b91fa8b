"""What a paused graph asks a person, and the hash that binds an approval to the arguments that were shown."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.types import Interrupt
from support.decisions import NOW, decide, decision, requests_in, waiting_for

from agentic_backend.errors import ApprovalMismatch
from agentic_backend.protocol.events import Choice, HumanRequest
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.sessions.waiting.approvals import decided, expired
from agentic_backend.streaming.people.approval_requests import args_sha256
from agentic_backend.streaming.people.interrupts import asked_again, human_requests, requests_of, resume_values


def sha256(canonical: str) -> str:
    return hashlib.sha256(canonical.encode()).hexdigest()


def asks(value: Any) -> list[HumanRequest]:
    """The requests of an interrupt, without the value that each of them has."""
    return [request.model_copy(update={"value": None}) for request in requests_of(Interrupt(value, id="i1"))]


@pytest.mark.parametrize(
    ("args", "canonical"),
    [
        ({}, "{}"),
        # RFC 8785, sections 3.2.2 and 3.2.3.
        (
            {
                "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
                "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f",
                "literals": [None, True, False],
            },
            '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
            '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
        ),
        # Section 3.2.3: keys are sorted by their UTF-16 code units, not by code points.
        (
            {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7},
            '{"\\r":2,"1":4,"\u0080":6,"\u00f6":7,"\u20ac":1,"\U0001f600":5,"\ufb33":3}',
        ),
        # Appendix B.
        ({"n": [0.0, -0.0, 5e-324, 1.7976931348623157e308]}, '{"n":[0,0,5e-324,1.7976931348623157e+308]}'),
        ({"n": [295147905179352830000.0, 1e21, 999999999999999700000.0]}, None),
        ({"n": [9007199254740991, -9007199254740991]}, '{"n":[9007199254740991,-9007199254740991]}'),
        ({"one": 1.0}, '{"one":1}'),
        ({"b": {"d": [], "c": {}}, "a": [[1], {}]}, '{"a":[[1],{}],"b":{"c":{},"d":[]}}'),
    ],
)
def test_arguments_are_hashed_over_their_canonical_json(args: dict[str, Any], canonical: str | None) -> None:
    if canonical is None:
        canonical = '{"n":[295147905179352830000,1e+21,999999999999999700000]}'
    assert args_sha256(args) == sha256(canonical)


def test_integers_that_have_no_canonical_number_are_hashed_by_their_digits() -> None:
    assert args_sha256({"n": 2**53, "in": [{"m": -(2**70)}]}) == sha256(
        '{"in":[{"m":"-1180591620717411303424"}],"n":"9007199254740992"}'
    )
    assert args_sha256({"n": 2**53}) != args_sha256({"n": 2**53 + 1})


@given(st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()))
def test_the_hash_does_not_depend_on_the_order_of_keys_or_on_a_journey_as_json(args: dict[str, Any]) -> None:
    assert args_sha256(dict(reversed(args.items()))) == args_sha256(args)
    assert args_sha256(json.loads(json.dumps(args))) == args_sha256(args)


def test_calls_of_a_batch_each_get_a_request_with_the_hash_of_what_is_shown() -> None:
    [send, drop] = asks(
        {
            "action_requests": [
                {"name": "send", "args": {"to": "ann"}, "description": "Send it?"},
                {"name": "drop", "args": {"odd": math.nan}},
            ],
            "review_configs": [{"action_name": "send", "allowed_decisions": ["respond", "reject", "approve"]}],
        }
    )
    assert send == HumanRequest(
        interrupt_id="i1",
        call_id="i1:0",
        name="send",
        args={"to": "ann"},
        args_sha256=sha256('{"to":"ann"}'),
        question="Send it?",
        allowed=["approve", "reject"],
    )
    assert drop == HumanRequest(
        interrupt_id="i1",
        call_id="i1:1",
        name="drop",
        args={"odd": "NaN"},
        args_sha256=sha256('{"odd":"NaN"}'),
        allowed=[],
    )


def approval(call_id: str = "c1", interrupt_id: str = "i1", **args: Any) -> Interrupt:
    value = {"type": "tool_approval", "tool_call_id": call_id, "name": "send", "args": args, "description": ""}
    return Interrupt(value, id=interrupt_id)


def test_a_call_is_named_by_its_own_id_where_a_frame_can_name_it_so() -> None:
    [request] = requests_of(approval("c1", to="ann"))
    assert (request.call_id, request.args_sha256) == ("c1", sha256('{"to":"ann"}'))
    assert (request.question, request.allowed) == (None, ["approve", "reject", "edit"])
    assert [requests_of(approval(name))[0].call_id for name in ("", "c" * 129, "c" * 128)] == [
        "i1:0",
        "i1:0",
        "c" * 128,
    ]


@pytest.mark.parametrize(
    ("given", "shown"),
    [(math.nan, "NaN"), (-math.inf, "-Infinity"), (2**63, str(2**63)), (-(2**70), str(-(2**70))), ("\ud800", "\ufffd")],
)
@pytest.mark.parametrize("args", [lambda one: {"n": one}, lambda one: {"n": [{"m": one}]}])
def test_what_is_not_shown_as_it_is_can_be_edited_or_rejected_and_not_approved(
    args: Callable[[Any], dict[Any, Any]], given: Any, shown: Any
) -> None:
    batch = {
        "action_requests": [{"name": "send", "args": args(given)}],
        "review_configs": [{"action_name": "send", "allowed_decisions": ["approve", "edit", "reject"]}],
    }
    one_call = approval(to="ann").value | {"args": args(given)}
    for value in (batch, one_call, {"action_request": {"action": "send", "args": args(given)}}):
        [request] = asks(value)
        assert request.allowed == ["reject", "edit"]
        assert request.args == args(shown)


def test_of_two_keys_that_are_shown_alike_neither_is_approved() -> None:
    [request] = asks(approval(to="ann").value | {"args": dict(zip(("\ud800", "\ufffd"), ("ann", "bob"), strict=True))})
    assert request.allowed == ["reject", "edit"]
    [request] = asks(approval(to="ann").value | {"args": {"\udfff": 1}})
    assert request.allowed == ["reject", "edit"]
    [request] = asks(approval(to="ann").value | {"args": {"n": [2**63 - 1, 1e300, -0.0, "\u200b"]}})
    assert request.allowed == ["approve", "reject", "edit"]


def test_calls_of_one_id_are_told_from_each_other_and_decided_on_one_by_one() -> None:
    interrupts = [approval("1", "i1", to="ann"), approval("1", "i2", to="bob"), approval("1", "i1", to="ann")]
    asked = human_requests(interrupts)
    assert asked is not None
    assert [(request.interrupt_id, request.call_id) for request in asked.requests] == [("i1", "1"), ("i2", "i2:0")]
    frame = HumanDecisions(decisions=[decision(request) for request in asked.requests[1:]])
    decisions = decided(waiting_for(interrupts), frame, "ann", NOW)
    assert resume_values(interrupts, decisions) == {"i2": {"type": "approve"}}


def batch(*call_ids: str, interrupt_id: str = "i1") -> Interrupt:
    """Calls with the same arguments, so that only their ids and their order tell them from each other."""
    calls = [{"name": "send", "args": {"to": "ann"}, "tool_call_id": call_id} for call_id in call_ids]
    configs = [{"action_name": "send", "allowed_decisions": ["approve", "reject"]}]
    return Interrupt({"action_requests": calls, "review_configs": configs}, id=interrupt_id)


APPROVED, REJECTED = {"type": "approve"}, {"type": "reject", "message": "No."}


@pytest.mark.parametrize(
    ("call_ids", "names"),
    [
        (["1", "1"], ["1", "i1:1"]),
        (["i1:1", "1"], ["i1:0", "1"]),
        (["i1:1", "i1:1"], ["i1:0", "i1:1"]),
        (["1", "i1:0", "1"], ["1", "i1:1", "i1:2"]),
        (["", "i1:0"], ["i1:0", "i1:1"]),
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_each_call_of_a_batch_gets_its_own_decision_whatever_its_id(
    call_ids: list[str], names: list[str], reverse: bool
) -> None:
    interrupts = [batch(*call_ids)]
    asked = human_requests(interrupts)
    assert asked is not None
    assert [request.call_id for request in asked.requests] == names
    for approved in range(len(call_ids)):
        said = ["approve" if index == approved else ("reject", "No.") for index in range(len(call_ids))]
        decisions = decide(interrupts, *said)
        assert resume_values(interrupts, reversed(decisions) if reverse else decisions) == {
            "i1": {"decisions": [APPROVED if index == approved else REJECTED for index in range(len(call_ids))]}
        }


@pytest.mark.parametrize("call_id", ["1", "i1:0", "i2:0"])
def test_batches_with_calls_of_one_id_each_get_their_own_decision(call_id: str) -> None:
    interrupts = [batch(call_id), batch(call_id, interrupt_id="i2")]
    decisions = decide(interrupts, "approve", ("reject", "No."))
    assert len({decision.call_id for decision in decisions}) == 2
    assert resume_values(interrupts, decisions) == {"i1": {"decisions": [APPROVED]}, "i2": {"decisions": [REJECTED]}}


def test_nobody_can_approve_of_what_can_not_be_shown() -> None:
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"in": deep}
    [request] = requests_of(approval(args=deep))
    assert request.args == {"_unreadable": "dict"}
    assert request.allowed == ["reject", "edit"]


def test_a_decision_about_other_arguments_resumes_nothing() -> None:
    decisions = decide([approval(to="ann")], "approve")
    with pytest.raises(ApprovalMismatch):
        resume_values([approval(to="bob")], decisions)


def test_who_does_not_decide_in_time_rejects() -> None:
    interrupts = [approval(to="ann")]
    decisions = expired(waiting_for(interrupts), NOW)
    assert decisions is not None
    assert resume_values(interrupts, decisions) == {"i1": {"type": "reject", "message": "Nobody decided in time."}}


def test_a_batch_is_resumed_once_each_of_its_calls_is_decided_on_in_its_own_order() -> None:
    calls = [{"name": name, "args": {"to": name}} for name in ("a", "b", "c")]
    configs = [{"action_name": name, "allowed_decisions": ["approve", "edit", "reject"]} for name in ("a", "b", "c")]
    interrupts = [Interrupt({"action_requests": calls, "review_configs": configs}, id="i1")]
    decisions = decide(interrupts, "approve", ("reject", "No."), ("edit", {"to": "z"}))
    assert resume_values(interrupts, decisions[:2]) == {}
    assert resume_values(interrupts, reversed(decisions)) == {
        "i1": {
            "decisions": [
                {"type": "approve"},
                {"type": "reject", "message": "No."},
                {"type": "edit", "edited_action": {"name": "c", "args": {"to": "z"}}},
            ]
        }
    }


def test_the_title_of_a_question_stands_above_all_that_is_asked() -> None:
    asked = human_requests([approval(), Interrupt({"title": "Travel", "question": "Where to?"}, id="i2")])
    assert asked is not None
    assert (asked.title, asked.requests[1].question) == ("Travel", "Where to?")
    assert human_requests([]) is None


@pytest.mark.parametrize("key", ["question", "message", "title"])
def test_a_question_may_have_choices(key: str) -> None:
    [request] = asks({key: "Which?", "options": ["left", {"id": "r", "label": "Right", "description": "The other"}, 3]})
    assert request == HumanRequest(
        interrupt_id="i1",
        question="Which?",
        choices=[
            Choice(id="left", label="left"),
            Choice(id="r", label="Right", description="The other"),
            Choice(id="3", label="3"),
        ],
        allowed=["answer"],
    )


@dataclass
class Form:
    field: str


@pytest.mark.parametrize(
    ("value", "question"),
    [
        ("Your name?", "Your name?"),
        (None, "null"),
        (7, "7"),
        (["a", "b"], '["a","b"]'),
        ({"other": 1}, '{"other":1}'),
        (Form("name"), '{"field":"name"}'),
        ({"question": "", "choices": "left"}, '{"question":"","choices":"left"}'),
        ({"question": {"de": "Wer?"}}, '{"de":"Wer?"}'),
        ({"action_requests": []}, '{"action_requests":[]}'),
        ("\ud800", "\ufffd"),
    ],
)
def test_whatever_a_graph_asks_with_becomes_a_question(value: Any, question: str) -> None:
    assert asks(value) == [HumanRequest(interrupt_id="i1", question=question, allowed=["answer"])]


def test_each_request_has_the_whole_value_of_its_interrupt() -> None:
    calls = [{"name": "send", "args": {"to": "ann"}}, {"name": "drop", "args": {}}]
    value = {"action_requests": calls, "review_configs": [], "reason": "It is late."}
    assert [request.value for request in requests_of(Interrupt(value, id="i1"))] == [value, value]
    assert [request.value for request in requests_of(approval(to="ann"))] == [approval(to="ann").value]


def test_the_values_of_one_pause_together_are_bounded() -> None:
    text = "x" * 70_000
    calls = [{"name": "send", "args": {"number": number}} for number in range(100)]
    asked = human_requests([Interrupt({"action_requests": calls, "text": text}, id="i1"), Interrupt(text, id="i2")])
    assert asked is not None and len(asked.requests) == 101
    assert sum(len(request.value) for request in asked.requests) <= 1024 * 1024
    assert all("[cut: " in request.value for request in asked.requests)
    assert [request.args for request in asked.requests[:-1]] == [call["args"] for call in calls]


def test_a_field_that_can_not_be_shown_does_not_hide_the_others() -> None:
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"in": deep}
    [request] = requests_of(Interrupt({"question": "Sure?", "details": "All of it", "deep": deep}, id="i1"))
    assert request.question == "Sure?"
    assert request.value == {"question": "Sure?", "details": "All of it", "deep": {"_unreadable": "dict"}}


def test_of_several_rounds_under_one_id_the_last_counts() -> None:
    """A graph may ask again under the id of what was answered before."""
    first, second = Interrupt("First?", id="i1"), Interrupt("Second?", id="i1")
    decisions = decided(waiting_for([first]), HumanDecisions(answers={"i1": "one"}), "ann", NOW)
    asked = human_requests([second])
    assert asked is not None
    again = asked_again(asked, len(decisions))
    waiting = replace(waiting_for([second]), pending=again)
    decisions += decided(waiting, HumanDecisions(answers={again.requests[0].interrupt_id: "two"}), "ann", NOW)
    assert resume_values([second], decisions) == {"i1": "two"}
    calls = batch("1", "2")
    requests = human_requests([calls])
    assert requests is not None
    waiting = replace(waiting_for([calls]), pending=asked_again(requests, len(decisions)))
    frame = HumanDecisions(decisions=[decision(request) for request in requests_in(waiting)])
    assert resume_values([calls], [*decisions, *decided(waiting, frame, "ann", NOW)]) == {
        "i1": {"decisions": [APPROVED, APPROVED]}
    }
