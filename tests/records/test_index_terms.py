"""Index terms sort as the values do that they stand for."""

from datetime import UTC, datetime, timedelta, timezone
from enum import Enum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agentic_backend.errors import BadFrame
from agentic_backend.records.index_terms import beginning_of, term_of

TEXTS = some.text(some.characters(exclude_categories=["Cs"]), max_size=40)
TIMES = some.datetimes(
    min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=some.just(UTC) | some.just(timezone.min)
)


@pytest.mark.parametrize(
    "values",
    [
        some.integers(min_value=-(2**63), max_value=2**63 - 1),
        some.floats(allow_nan=False),
        TIMES,
        some.booleans(),
        TEXTS,
    ],
    ids=["integers", "floats", "times", "booleans", "texts"],
)
def test_terms_sort_as_their_values(values: Any) -> None:
    @given(values, values)
    def check(one: Any, other: Any) -> None:
        assert (term_of(one) < term_of(other)) == (one < other)
        assert (term_of(one) == term_of(other)) == (one == other)
        assert term_of(None) < term_of(one)

    check()


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_the_terms_of_several_values_sort_as_these(one: str, second: str, other: str, fourth: str) -> None:
    def term(*values: str) -> str:
        return "".join(map(term_of, values))

    assert (term(one, second) < term(other, fourth)) == ((one, second) < (other, fourth))


@given(TEXTS, TEXTS)
def test_a_beginning_finds_the_texts_that_begin_so(text: str, beginning: str) -> None:
    assert term_of(text).startswith(beginning_of(beginning)) == text.startswith(beginning)
    assert term_of(beginning + text).startswith(beginning_of(beginning))


def test_terms_are_plain_characters_and_enumerations_their_values() -> None:
    class Word(StrEnum):
        ONE = "one"

    class Number(Enum):
        ONE = 1

    assert term_of("é😀\0'$") == "5c3a9f09f988000" + "2724."
    assert (term_of(Word.ONE), term_of(Number.ONE)) == (term_of("one"), term_of(1))
    assert term_of(datetime(2026, 1, 1)) == term_of(datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))))
    assert term_of(-0.0) == term_of(0.0)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, "x" * 201, "ü" * 101, "\ud800"])
def test_what_no_index_can_hold_is_refused(value: object) -> None:
    with pytest.raises(BadFrame):
        term_of(value)


def test_another_type_is_an_authors_fault() -> None:
    with pytest.raises(TypeError, match="dict"):
        term_of({})
