"""Bounds the values of a JSON text before it is parsed. Pure.

A megabyte of empty lists takes the parser ten times as long as a megabyte of messages, holds all threads meanwhile, and
makes objects of forty megabytes. Counting takes a few milliseconds.
"""

MOST_VALUES = 200_000
"""Values of a text: more than whatever is sent of sense in the bytes that are read anywhere."""

# Each value but the first one comes after one of them.
_BEFORE_VALUES = (b",", b"[", b"{")


def has_too_many_values(text: bytes | bytearray) -> bool:
    """Whether `text`, which may be cut at its end, is certain to have more than MOST_VALUES values."""
    if _signs_in(text) <= MOST_VALUES:
        return False
    # Signs within texts don't count.
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if text.count(b'"') > 4 * (MOST_VALUES + 1):
        # Each value and each key has two.
        return True
    return _signs_in(b"".join(text.split(b'"')[::2])) > MOST_VALUES


def _signs_in(text: bytes | bytearray) -> int:
    # Nothing comes after the bracket of an empty list.
    return sum(map(text.count, _BEFORE_VALUES)) - text.count(b"[]") - text.count(b"{}")
