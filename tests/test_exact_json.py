"""What JSON, every store and every client have as it is, and what isn't read from a text."""

import math
from typing import Any

import pytest

from agentic_backend.exact_json import Inexact, all_exact, read_exactly

EXACT: list[Any] = [None, True, 0, -0.0, 1.5, 5e-324, 1e308, 1e20, 2**53 + 1, 2**63 - 1, -(2**63) + 1, "", "😀\u200b"]
INEXACT: list[Any] = [math.nan, math.inf, -math.inf, 2**63, -(2**63), 2**64 + 1, 10**5_000, "\ud800", "a\udfffb"]


@pytest.mark.parametrize("value", EXACT)
def test_what_has_a_form_of_its_own_is_exact_wherever_it_stands(value: Any) -> None:
    assert all_exact({"a": [{"b": value}]})


@pytest.mark.parametrize("value", INEXACT, ids=range(len(INEXACT)))
def test_what_has_none_is_found_wherever_it_stands(value: Any) -> None:
    assert not all_exact(value)
    assert not all_exact({"a": [1, {"b": value}]})
    assert not isinstance(value, str) or not all_exact({value: 1})


@pytest.mark.parametrize(
    "text",
    ["NaN", "-Infinity", "1e400", "-1E400", str(2**63), str(-(2**63)), "9" * 10_000, '{"a": [18446744073709551617]}'],
)
def test_a_number_that_would_change_is_not_read(text: str) -> None:
    with pytest.raises(Inexact):
        read_exactly(text)


def test_all_other_json_is_read_as_it_is() -> None:
    assert read_exactly(f'{{"a": [1, 1.5, 1e20, "NaN", {2**63 - 1}, null]}}') == {
        "a": [1, 1.5, 1e20, "NaN", 2**63 - 1, None]
    }
    for text in ("", "{", "[1,]", "nan"):
        with pytest.raises(ValueError, match="line 1") as caught:
            read_exactly(text)
        assert not isinstance(caught.value, Inexact)
