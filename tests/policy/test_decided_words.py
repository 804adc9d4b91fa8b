"""Which texts of a decision are the person's, and how others take their place."""

from typing import Any

import pytest

from agentic_backend.policy.hooks.decided_words import keys_of, texts_of, with_texts
from agentic_backend.protocol.messages import utc_now
from agentic_backend.stores.records import HumanDecision


def decision(action: str, **fields: Any) -> HumanDecision:
    return HumanDecision.model_validate({"interrupt_id": "i", "action": action, "at": utc_now(), **fields})


FORM = {"name": "Ann", "age": 7, "old": False, "none": None, "tags": ["a", " ", ["b"]], "more": {"note": "c", "": ""}}


@pytest.mark.parametrize(
    ("made", "texts"),
    [
        (decision("answer", answer="left"), ["left"]),
        (decision("answer", answer=FORM), ["Ann", "7", "a", "b", "c"]),
        (decision("answer", answer=4111111111111111), ["4111111111111111"]),
        (decision("answer", answer=None), []),
        (decision("answer", answer=True), []),
        (decision("reject", args={"to": "ann"}, message="no"), ["no"]),
        (decision("reject", args={"to": "ann"}), []),
        (decision("approve", args={"to": "ann"}), []),
        (decision("expire", args={"to": "ann"}), []),
        (decision("edit", args={"to": "ann", "body": "hi"}, edited_args={"to": "bob", "body": "hi"}), ["bob"]),
        (decision("edit", args={"to": ["ann"]}, edited_args={"to": ["ann", "bob"], "cc": "ann"}), ["bob", "ann"]),
        (decision("edit", args={"to": "ann"}, edited_args={"to": ["ann"]}), ["ann"]),
        (decision("edit", args={"n": 1, "m": 2, "b": 1}, edited_args={"n": 1, "m": 3.5, "b": True}), ["3.5"]),
        (decision("edit", args={"to": ["ann", "bob"]}, edited_args={"to": ["bob", "ann"]}), ["bob", "ann"]),
    ],
)
def test_a_persons_texts(made: HumanDecision, texts: list[str]) -> None:
    assert texts_of(made) == texts
    assert with_texts(made, texts, texts) == made if texts else True


def test_other_texts_stand_where_the_persons_stood() -> None:
    made = with_texts(decision("answer", answer=FORM), ["1", "7", "2", "3", "4"], ["5", "x", "2", "3", "4"])
    assert made.answer == {**FORM, "name": "1", "tags": ["2", " ", ["3"]], "more": {"note": "4", "": ""}}
    assert made.given.answer == {**made.answer, "name": "5", "age": "x"}
    assert (made.words, made.given.for_model) == (made.answer, None)


def test_an_edit_keeps_what_was_shown() -> None:
    edit = decision("edit", args={"to": "ann", "body": "hi"}, edited_args={"to": "ann", "body": "my secret"})
    made = with_texts(edit, ["my ***"], ["my ***"])
    assert (made.args, made.edited_args) == (edit.args, {"to": "ann", "body": "my ***"})
    assert made.given is made


def test_a_persons_keys_are_those_that_nobody_has_shown_or_named() -> None:
    edit = decision("edit", args={"to": {"ann": 1}}, edited_args={"to": {"ann": 1, "bob": [{"eve": 2, "due": 3}]}})
    schema = {"properties": {"to": {"properties": {"due": {}}}}}
    assert keys_of(edit, schema) == ["bob", "eve"]
    assert keys_of(decision("answer", answer="left"), schema) == []
