"""A JSON object is read from text or bytes; anything else is a bad frame."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_backend.config.json_bounds import MOST_VALUES
from agentic_backend.errors import BadFrame
from agentic_backend.transports.json_object import decode_object


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "hello",
        '{"message": NaN}',
        '{"message": "\\ud800"}',
        "[" * 100_000,
        '{"n": 1e400}',
        '{"n": ' + "9" * 5_000 + "}",
    ],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(BadFrame, match="What was sent is not JSON"):
        decode_object(text)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b'{"message": "\xed\xa0\x80"}', b"\x00"])
def test_bytes_that_are_no_json_are_refused(data: bytes) -> None:
    with pytest.raises(BadFrame, match="What was sent is not JSON"):
        decode_object(data)


@pytest.mark.parametrize("value", [None, 5, "hello", True, [], [{"message": "hello"}]])
def test_what_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(BadFrame, match="What was sent is not a JSON object"):
        decode_object(json.dumps(value))


def test_bytes_are_read_as_text_is() -> None:
    text = '{"message": "größer ✓"}'
    assert decode_object(text.encode()) == decode_object(text) == {"message": "größer ✓"}


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**300])
def test_integers_of_any_size_are_those_that_were_sent(number: int) -> None:
    read = decode_object(f'{{"n": [{number}], "text": "{number}", "float": {number}.5e0}}')
    assert read == {"n": [number], "text": str(number), "float": float(f"{number}.5")}
    assert isinstance(read["n"][0], int) and isinstance(read["float"], float)


@given(st.binary() | st.text())
def test_garbage_raises_nothing_but_bad_frame(data: bytes | str) -> None:
    try:
        decode_object(data)
    except BadFrame as refused:
        assert refused.content


def test_of_too_many_values_nothing_is_parsed() -> None:
    sent = b"[" + b"[]," * MOST_VALUES
    with pytest.raises(BadFrame, match=f"more than {MOST_VALUES} values"):
        decode_object(sent)
    with pytest.raises(BadFrame, match="more than"):
        decode_object(sent.decode())
