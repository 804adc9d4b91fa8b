"""What a person types is a value of whatever schema an agent asks with."""

import json
from io import StringIO
from typing import Any

import pytest
from support.unseen_characters import UNSEEN, code

from agentic_backend.client import Answer, HumanRequest, edit
from agentic_backend.protocol.events import HumanRequests
from agentic_backend.terminal.human_form import HumanForm, value_of
from agentic_backend.terminal.keyboard import Keyboard
from agentic_backend.terminal.screen import Screen


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        ({}, "7", "7"),
        ({"type": "string"}, "7", "7"),
        ({"type": "integer"}, "7", 7),
        ({"type": "boolean"}, "y", True),
        ({"type": ["string", "null"]}, "x", "x"),
        ({"type": ["integer", "null"]}, "7", 7),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", 7),
        ({"anyOf": [True, {"type": ["number"]}]}, "7.5", 7.5),
        ({"enum": [1, "two", None]}, "1 ", 1),
        ({"enum": [1, "two", None]}, "two", "two"),
        ({"anyOf": 7, "type": {"no": "type"}}, "x", "x"),
    ],
)
def test_what_is_typed_is_a_value_of_the_schema(schema: dict[str, Any], typed: str, value: Any) -> None:
    assert value_of(typed, schema) == value


def test_what_is_no_value_is_told_by_its_kinds() -> None:
    with pytest.raises(ValueError, match=r"^Expected JSON: array or integer\.$"):
        value_of("seven", {"type": ["integer", "array", "null"]})
    with pytest.raises(ValueError, match=r"^Expected y or n\.$"):
        value_of("perhaps", {"type": "boolean"})
    with pytest.raises(ValueError, match=r"^Expected JSON: array\.$"):
        value_of("[" * 200_000, {"type": "array"})
    with pytest.raises(ValueError, match=r"^Expected one of 1, two\.$"):
        value_of("3", {"enum": [1, "two"]})


@pytest.mark.parametrize("number", ["NaN", "1e400", str(2**63)])
def test_a_number_that_would_not_arrive_as_it_is_is_asked_for_again(
    number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="can't be sent exactly"):
        value_of(number, {"type": "number"})
    monkeypatch.setattr("sys.stdin", StringIO(f'e\n{{"n": [{number}]}}\n{{"n": [7]}}\n'))
    request = HumanRequest(interrupt_id="i", call_id="c", name="pay", args={}, args_sha256="0" * 64, allowed=["edit"])
    errors = StringIO()
    [made] = HumanForm(Screen(StringIO(), errors), Keyboard()).fill(HumanRequests(requests=[request]))
    assert made == edit(request, {"n": [7]})
    assert "That is no JSON" in errors.getvalue()


@pytest.mark.parametrize("character", UNSEEN.values(), ids=UNSEEN)
def test_a_call_is_shown_with_all_that_nobody_sees(character: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("y\n"))
    args = {f"to{character}": f"ann{character}bob"}
    request = HumanRequest(
        interrupt_id="i", call_id="c", name=f"pay{character}", args=args, args_sha256="0" * 64, allowed=["approve"]
    )
    notes = StringIO()
    HumanForm(Screen(StringIO(), notes), Keyboard()).fill(HumanRequests(requests=[request]))
    first, _, shown = notes.getvalue().partition("\n")
    assert first == f"Approve pay{code(character)}?"
    assert shown.isascii() and json.loads(shown) == args


@pytest.mark.parametrize(
    ("schema", "typed", "made"),
    [
        ({"properties": {"x": True}}, "7", {"x": "7"}),
        ({"properties": {"x": {"type": "integer"}}, "required": None}, "", {}),
        ({"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": []}, "7", {"x": "7"}),
        ({"properties": ["x"]}, '{"x": 1}', {"x": 1}),
    ],
)
def test_odd_schemas_are_asked_for_too(
    schema: dict[str, Any], typed: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(f"{typed}\n"))
    request = HumanRequest(interrupt_id="i", question="Which?", response_schema={"type": "object", **schema})
    form = HumanForm(Screen(StringIO(), StringIO()), Keyboard())
    [answered] = form.fill(HumanRequests(requests=[request]))
    assert isinstance(answered, Answer) and answered.value == made
