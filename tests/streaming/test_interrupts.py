"""What a paused graph asks a person, and the hash that binds an approval to the arguments that were shown."""

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.types import Interrupt

from agentic_backend.protocol.events import Choice, HumanRequest
from agentic_backend.streaming.interrupts import args_sha256, requests_of


def sha256(canonical: str) -> str:
    return hashlib.sha256(canonical.encode()).hexdigest()


def asks(value: Any) -> list[HumanRequest]:
    return requests_of(Interrupt(value, id="i1"))


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


def test_calls_to_approve_each_get_a_request_with_the_hash_of_what_is_shown() -> None:
    [send, drop] = asks(
        {
            "action_requests": [
                {"name": "send", "args": {"to": "ann"}, "description": "Send it?", "id": "c1"},
                {"name": "drop", "args": {"odd": math.nan}},
            ],
            "review_configs": [{"action_name": "send", "allowed_decisions": ["approve", "reject"]}],
        }
    )
    assert send == HumanRequest(
        interrupt_id="i1",
        call_id="c1",
        name="send",
        args={"to": "ann"},
        args_sha256=sha256('{"to":"ann"}'),
        question="Send it?",
        allowed=["approve", "reject"],
    )
    assert drop == HumanRequest(
        interrupt_id="i1", name="drop", args={"odd": None}, args_sha256=sha256('{"odd":null}'), allowed=[]
    )


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
