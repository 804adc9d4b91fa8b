"""Which texts of a decision are the person's, and how others take their place."""

from typing import Any

import pytest

from agentic_backend.policy.hooks.decided_words import texts_of, with_texts
from agentic_backend.protocol.messages import utc_now
from agentic_backend.stores.records import HumanDecision


def decision(action: str, **fields: Any) -> HumanDecision:
    return HumanDecision.model_validate({"interrupt_id": "i", "action": action, "at": utc_now(), **fields})


FORM = {"name": "Ann", "age": 7, "old": False, "none": None, "tags": ["a", " ", ["b"]], "more": {"note": "c", "": ""}}


@pytest.mark.parametrize(
    ("made", "texts"),
    [
        (decision("answer", answer="left"), ["left"]),
        (decision("answer", answer=FORM), ["Ann", "a", "b", "c"]),
        (decision("answer", answer=None), []),
        (decision("answer", answer=True), []),
        (decision("reject", args={"to": "ann"}, message="no"), ["no"]),
        (decision("reject", args={"to": "ann"}), []),
        (decision("approve", args={"to": "ann"}), []),
        (decision("expire", args={"to": "ann"}), []),
        (decision("edit", args={"to": "ann", "body": "hi"}, edited_args={"to": "bob", "body": "hi"}), ["bob"]),
        (decision("edit", args={"to": ["ann"]}, edited_args={"to": ["ann", "bob"], "cc": "ann"}), ["bob", "ann"]),
        (decision("edit", args={"to": "ann"}, edited_args={"to": ["ann"]}), ["ann"]),
        (decision("edit", args={"to": ["ann", "bob"]}, edited_args={"to": ["bob", "ann"]}), ["bob", "ann"]),
    ],
)
def test_a_persons_texts(made: HumanDecision, texts: list[str]) -> None:
    assert texts_of(made) == texts
    assert with_texts(made, texts, texts) == made if texts else True


def test_other_texts_stand_where_the_persons_stood() -> None:
    made = with_texts(decision("answer", answer=FORM), ["1", "2", "3", "4"], ["5", "2", "3", "4"])
    assert made.answer == {**FORM, "name": "1", "tags": ["2", " ", ["3"]], "more": {"note": "4", "": ""}}
    assert made.given.answer == {**made.answer, "name": "5"}
    assert (made.words, made.given.for_model) == (made.answer, None)


def test_an_edit_keeps_what_was_shown() -> None:
    edit = decision("edit", args={"to": "ann", "body": "hi"}, edited_args={"to": "ann", "body": "my secret"})
    made = with_texts(edit, ["my ***"], ["my ***"])
    assert (made.args, made.edited_args) == (edit.args, {"to": "ann", "body": "my ***"})
    assert made.given is made
