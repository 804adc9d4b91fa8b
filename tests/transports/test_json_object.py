"""A JSON object is read from text or bytes; anything else is a bad frame."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_backend.errors import BadFrame
from agentic_backend.transports.json_object import decode_object


@pytest.mark.parametrize("text", ["", " ", "{", "hello", '{"message": NaN}', '{"message": "\\ud800"}', "[" * 100_000])
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


@given(st.binary() | st.text())
def test_garbage_raises_nothing_but_bad_frame(data: bytes | str) -> None:
    try:
        decode_object(data)
    except BadFrame as refused:
        assert refused.content
