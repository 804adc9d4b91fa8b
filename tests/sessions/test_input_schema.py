"""What a person puts in against an author's or a server's schema: exact, safe, and told without the value."""

import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.cpu_time import takes_at_most

from agentic_backend.sessions.waiting.input_check import flaw

SECRET = "canary-5fd1"


def of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}}


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"type": "string"}, 7, "expected string"),
        ({"type": ["string", "null"]}, 7, "expected ['string', 'null']"),
        ({"type": "object", "required": ["a", "b"]}, {"b": SECRET}, "a is missing"),
        ({"enum": ["a"]}, SECRET, "does not meet the schema's 'enum': [\"a\"]"),
        ({"maximum": 3}, 4, "does not meet the schema's 'maximum': 3"),
        ({"pattern": "^a+$"}, SECRET, "does not meet the schema's 'pattern': \"^a+$\""),
        ({"type": "string", "format": "date"}, SECRET, "does not meet the schema's 'format': \"date\""),
        (
            {"type": "string", "format": "date-time"},
            "2026-13-01T00:00:00Z",
            "does not meet the schema's 'format': \"date-time\"",
        ),
        ({"type": "string", "format": "uuid"}, SECRET, "does not meet the schema's 'format': \"uuid\""),
        ({"enum": ["a" * 100]}, SECRET, "does not meet the schema's 'enum'"),
        ({"additionalProperties": False}, {SECRET: 1}, "does not meet the schema's 'additionalProperties': false"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 7, None),
        ({"patternProperties": {"^a": {"type": "string"}}}, {"b": 1, "a": 7}, None),
        ({"patternProperties": {"^a": {}}, "additionalProperties": False}, {"a": 1, "b": SECRET}, None),
        ({"patternProperties": {"^a": {}}, "additionalProperties": {"type": "string"}}, {"a": 1, "b": 7}, None),
        ({"properties": {"a": {}}, "unevaluatedProperties": False}, {"b": SECRET}, None),
    ],
)
def test_a_wrong_value_is_told_by_its_place_and_never_shown(
    schema: dict[str, Any], value: Any, told: str | None
) -> None:
    found = flaw({"x": value}, of(schema))
    assert found is not None and SECRET not in found
    assert told is None or found == f".x: {told}"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00Z"),
        ({"type": "string", "format": "unheard-of"}, "x"),
        ({"pattern": "(?<=a)b"}, "an engine without look-around leaves it to the tool"),
        ({"patternProperties": {"(?<=a)b": {"type": "string"}}, "additionalProperties": False}, {"ab": 7}),
        ({"patternProperties": {"^a": {}}, "additionalProperties": False}, {"a": 1}),
        ({"$ref": "#/$defs/Lost"}, 1),
        ({"$ref": "https://example.org/schema"}, 1),
        ({"type": "no such type"}, 1),
        ({"properties": 7}, {}),
        ({"$ref": "#"}, {"x": {"x": {}}}),
    ],
)
def test_what_can_not_be_checked_here_is_left_to_the_tool(schema: dict[str, Any], value: Any) -> None:
    assert flaw({"x": value}, of(schema)) is None


def test_a_pattern_that_a_backtracking_engine_would_never_leave_costs_nothing() -> None:
    value = {"x": "a" * 50_000 + "!"}
    assert flaw(value, of({"pattern": "^(a+)+$"})) is not None
    assert takes_at_most(5, lambda: flaw(value, of({"pattern": "^(a+)+$"})))


@pytest.mark.parametrize("keyword", ["additionalProperties", "unevaluatedProperties", "required"])
def test_neither_does_one_for_names(keyword: str) -> None:
    schema = {"patternProperties": {"^(a+)+$": {"type": "string"}}, keyword: ["b"] if keyword == "required" else False}
    assert takes_at_most(5, lambda: flaw({"x": {"a" * 50_000 + "!": 1, "b": 1}}, of(schema)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
SCHEMA = st.dictionaries(st.sampled_from(["type", "properties", "items", "$ref", "enum", "required", "anyOf"]), JSON)


@given(JSON, SCHEMA)
@example({}, {"required": [None]})
def test_no_schema_and_no_value_raises(value: Any, schema: dict[str, Any]) -> None:
    found = flaw(value, schema)
    assert found is None or json.dumps(found)


def test_a_schema_that_doubles_at_each_level_is_given_up() -> None:
    levels: dict[str, Any] = {f"l{number}": {"allOf": [{"$ref": f"#/$defs/l{number + 1}"}] * 2} for number in range(40)}
    schema = {"$defs": levels | {"l40": {"type": "integer"}}, "$ref": "#/$defs/l0"}
    began = time.perf_counter()
    assert flaw(1, schema) == ": takes too long to check against its schema"
    assert time.perf_counter() - began < 20


def test_a_long_value_is_checked_in_steps_that_grow_with_its_length() -> None:
    rows = [{"number": number, "more": {"text": "x"}} for number in range(5_000)]
    item = {"type": "object", "properties": {"number": {"type": "integer"}, "more": {"type": "object"}}}
    schema = of({"type": "array", "uniqueItems": True, "items": item})
    assert flaw({"x": rows}, schema) is None
    assert flaw({"x": [*rows, rows[0]]}, schema) == ".x: does not meet the schema's 'uniqueItems': true"


def test_long_lists_are_not_looked_through_again_and_again() -> None:
    schema = {"allOf": [{"uniqueItems": True}] * 50}
    assert flaw(list(range(1_000)), schema) is None
    assert flaw(list(range(60_000)), schema) == ": takes too long to check against its schema"


@pytest.mark.parametrize(
    ("items", "are_unique"),
    [([1, True, "1", None, 0, False, ""], True), ([1, 1.0], False), ([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], False)],
)
def test_items_are_told_apart_as_json_schema_does(items: list[Any], are_unique: bool) -> None:
    assert (flaw(items, {"uniqueItems": True}) is None) is are_unique


@pytest.mark.parametrize(
    "slow",
    [
        {"enum": [*range(30_000), SECRET]},
        {"required": [f"k{number}" for number in range(2_000)]},
        {"patternProperties": {f"k{number}": True for number in range(2_000)}},
    ],
)
def test_neither_are_the_long_lists_of_a_schema(slow: dict[str, Any]) -> None:
    levels: dict[str, Any] = {f"l{number}": {"allOf": [{"$ref": f"#/$defs/l{number + 1}"}] * 2} for number in range(12)}
    schema = {"$defs": levels | {"l12": slow}, "$ref": "#/$defs/l0"}
    found: list[str | None] = []
    assert takes_at_most(5, lambda: found.append(flaw({"x": SECRET}, schema)))
    assert found[-1] == ": takes too long to check against its schema"
