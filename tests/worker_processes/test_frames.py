"""Frames: whatever is data comes back as it was, and nothing else goes through."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_backend.worker_processes.frames import (
    HEAD,
    MOST_BYTES,
    MOST_JSON,
    Frame,
    NotData,
    Rubbish,
    length_within,
    lengths_in,
    packed,
    size_of_lengths,
    unpacked,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)
DATA = st.recursive(
    PLAIN | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS.filter(bool), inner, max_size=4),
)


def read(frame: Frame) -> Any:
    sent = b"".join(frame.numbered(7))
    number, told, count = HEAD.unpack(sent[: HEAD.size])
    end = HEAD.size + size_of_lengths(told, count)
    parts = []
    for length in lengths_in(told, sent[HEAD.size : end]):
        parts.append(sent[end : end + length])
        end += length
    assert (number, end) == (7, len(sent))
    return unpacked(parts[0], parts[1:])


@given(DATA)
def test_data_come_back_as_they_were(value: Any) -> None:
    assert read(packed(value)) == value


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth else []


class Text(str):
    pass


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1: "a"},
        {"": 0},
        {1, 2},
        float("nan"),
        2**64,
        Text("a"),
        "\ud800",
        len,
        nested(200),
        CIRCLE,
        "x" * MOST_JSON,
        "\x00" * (MOST_JSON // 5),
        [0] * MOST_JSON,
        bytes(MOST_BYTES + 1),
        [b""] * 10_001,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_data_or_too_large_is_refused(value: object) -> None:
    with pytest.raises(NotData):
        packed(value)


@pytest.mark.parametrize(
    ("told", "pieces"),
    [
        (b"{", []),
        (b'"\xff"', []),
        (b"[" * 100_000, []),
        (b'{"":1}', [b"a"]),
        (b'{"":"a"}', [b"a"]),
        (b'{"":[]}', [b"a"]),
    ],
)
def test_rubbish_is_refused(told: bytes, pieces: Sequence[bytes]) -> None:
    with pytest.raises(Rubbish):
        unpacked(told, pieces)


def test_a_head_that_says_too_much_is_refused_before_it_is_read() -> None:
    for told, pieces in ((MOST_JSON + 1, 0), (1, 10_001)):
        with pytest.raises(Rubbish):
            size_of_lengths(told, pieces)
    with pytest.raises(Rubbish):
        lengths_in(1, b"\xff\xff\xff\xff" * 2)


@pytest.mark.parametrize("value", ["x" * 10_000, ["x"] * 10_000, {str(n): n for n in range(10_000)}, [["x" * 9_000]]])
def test_what_is_long_is_known_to_be_so(value: object) -> None:
    assert length_within(value, 4_000) > 4_000
    assert length_within([1, "a", {"a": b"b"}], 4_000) < 20
