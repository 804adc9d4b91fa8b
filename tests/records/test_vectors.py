"""A vector is kept in one form, whatever it is given as, or refused with the reason."""

from array import array
from collections.abc import Sequence
from math import hypot
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from agentic_backend.records.vectors import MOST_DIMENSIONS, packed

NUMBERS = some.floats(allow_nan=False, allow_infinity=False)


def unpacked(content: bytes) -> list[float]:
    return array("f", content).tolist()


@given(some.lists(NUMBERS, min_size=1, max_size=20).filter(any))
def test_any_vector_is_brought_to_the_length_one_in_its_direction(vector: list[float]) -> None:
    kept = unpacked(packed(vector))
    assert len(kept) == len(vector) and hypot(*kept) == pytest.approx(1, abs=1e-6)
    largest = max(map(abs, vector))
    length = hypot(*(number / largest for number in vector))
    assert kept == pytest.approx([number / largest / length for number in vector], abs=1e-6)


@pytest.mark.parametrize(
    "given_as",
    [
        (3, 4),
        [3.0, 4],
        array("f", [3, 4]),
        array("f", [3, 4]).tobytes(),
        bytearray(array("f", [3, 4]).tobytes()),
        memoryview(array("f", [3, 4])),
        np.array([3, 4], np.float16),
        np.array([3, 4], ">f8"),
        [3e300, 4e300],
        [3e-320, 4e-320],
    ],
)
def test_the_form_in_which_it_is_given_makes_no_difference(given_as: Any) -> None:
    assert unpacked(packed(given_as)) == pytest.approx([0.6, 0.8], abs=1e-3)


def test_the_same_direction_is_kept_as_the_same_bytes() -> None:
    assert packed([1, 2, 4]) == packed([0.25, 0.5, 1]) == packed(packed([1, 2, 4]))
    assert len(packed([1.0] * MOST_DIMENSIONS)) == 4 * MOST_DIMENSIONS


@pytest.mark.parametrize(
    ("vector", "said"),
    [
        ([], "1 to 4096"),
        (b"", "1 to 4096"),
        ([1.0] * (MOST_DIMENSIONS + 1), "1 to 4096"),
        (range(10**12), "1 to 4096"),
        (b"\0" * 5 * MOST_DIMENSIONS, "1 to 4096"),
        ([0, 0.0, -0.0], "no direction"),
        ([1, float("nan")], "not finite"),
        ([1, float("-inf")], "not finite"),
        (array("f", [float("inf")]).tobytes(), "not finite"),
    ],
)
def test_a_vector_without_a_direction_is_refused(vector: Sequence[float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        packed(vector)


@pytest.mark.parametrize(
    "vector",
    [
        "1, 2",
        b"12345",
        7,
        1.5,
        ["1", "2"],
        [True, False],
        [1, None],
        [[1, 2], [3, 4]],
        [[1], [2, 3]],
        [1, 10**400],
        [1.5, -(10**400)],
        np.array(1.5),
        np.array([1, 2], "M8[s]"),
        memoryview(b"12345678")[::2],
        [1j],
        {1, 2},
        {1: 2},
        (number for number in (1, 2)),
        object(),
    ],
)
def test_what_is_no_vector_is_a_type_error(vector: Any) -> None:
    with pytest.raises(TypeError, match="has to be numbers"):
        packed(vector)
