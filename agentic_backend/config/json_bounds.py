"""Bounds the values and the depth of a JSON text before it is parsed. Pure.

A megabyte of empty lists takes the parser ten times as long as a megabyte of messages, holds all threads meanwhile, and
makes objects of forty megabytes. Counting takes a few milliseconds.
"""

import re

MOST_VALUES = 200_000
"""Values of a text: more than whatever is sent of sense in the bytes that are read anywhere."""

# Also a text without an end is one match: to begin again at each of its quotes would take very long.
_SIGNS = re.compile(rb'"(?:[^"\\]+|\\.)*(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)

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


def without_depths(text: bytes | bytearray, most: int) -> bytes:
    """`text` with null for each object and list within more than `most` others, so that a parser takes it.

    Takes a second for some megabytes.
    """
    kept, start, depth = [], 0, 0
    for sign in _SIGNS.finditer(text):
        if sign[0] in (b"[", b"{"):
            depth += 1
            if depth == most + 1:
                kept += [text[start : sign.start()], b"null"]
        elif sign[0] in (b"]", b"}"):
            depth -= 1
            if depth == most:
                start = sign.end()
    return b"".join([*kept, text[start:]] if depth <= most else kept)


def _signs_in(text: bytes | bytearray) -> int:
    # Nothing comes after the bracket of an empty list.
    return sum(map(text.count, _BEFORE_VALUES)) - text.count(b"[]") - text.count(b"{}")
