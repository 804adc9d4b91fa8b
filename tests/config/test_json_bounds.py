"""Which JSON has too many values: only such as has, whatever its texts and keys say."""

import json
from typing import Any

import pytest

from agentic_backend.config.json_bounds import MOST_VALUES, has_too_many_values, without_depths

SIGNS = '[{,"\\]}:' * 50_000


def messages(text: str, count: int) -> Any:
    return [{"role": "user", "content": [{"type": "text", "text": text}]} for _ in range(count)]


@pytest.mark.parametrize(
    "value",
    [
        messages(SIGNS, 1),
        messages("\\", 30_000),
        messages("[[[[[[[[", 30_000),
        {SIGNS: '\\\\"' * 100_000},
        [0] * MOST_VALUES,
        [[]] * (MOST_VALUES - 1),
        {f"{number}": "," for number in range(MOST_VALUES - 1)},
    ],
)
def test_what_is_within_the_bound_is_let_through(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1), json.dumps(value, ensure_ascii=False)):
        assert not has_too_many_values(text.encode())


@pytest.mark.parametrize(
    "value",
    [
        [0] * (MOST_VALUES + 1),
        [[]] * (MOST_VALUES + 1),
        [{}] * (MOST_VALUES + 1),
        [""] * (3 * MOST_VALUES),
        ['[\\"'] * (MOST_VALUES + 1),
        [{"": []}] * MOST_VALUES,
        {f"\\{number}": 0 for number in range(MOST_VALUES + 1)},
    ],
)
def test_what_has_more_is_not_though_it_may_be_cut(value: Any) -> None:
    text = json.dumps(value).encode()
    assert has_too_many_values(text)
    assert has_too_many_values(bytearray(text + b',"[\\'))


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ('{"a": [1, {"b": [2, {"c": 3}]}, 4]}', '{"a": [1, {"b": null}, 4]}'),
        ('[[[[], {}], "]]\\"[[", []]]', '[[null, "]]\\"[[", null]]'),
        ('{"a": "[[[[{{{{"}', '{"a": "[[[[{{{{"}'),
        ("[[[[[[", "[[null"),
    ],
)
def test_what_is_deeper_than_the_bound_is_null(text: str, without: str) -> None:
    assert without_depths(text.encode(), 2 if text.startswith("[") else 3) == without.encode()


@pytest.mark.parametrize("text", ['"' + '\\"' * 1_000_000, '"' + "\\" * 1_000_001, "]" * 1_000_000])
def test_a_text_that_is_no_json_is_read_once(text: str) -> None:
    assert without_depths(text.encode(), 2) == text.encode()
