"""Frames: values as they go between the server and a worker process, as data and never as code. Pure.

A frame is a head, which says how long what follows is: the value as JSON, and the bytes in it, which stand beside it.
JSON is bounded more narrowly than bytes, because it becomes many objects.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any

import orjson

MOST_JSON = 4 * 1024 * 1024
"""Bytes of a value as JSON."""
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of all `bytes` in a value."""

HEAD = struct.Struct(">QII")
"""The number of the call, the length of the JSON, and how many `bytes` there are."""
LENGTH = struct.Struct(">I")
"""The length of each of these, behind the head."""

_MOST_PIECES = 10_000
_DEEPEST = 100
_INTEGERS = range(-(2**63), 2**64)
# The key of an object that stands for the bytes of this number.
_PIECE = ""


class NotData(TypeError):
    """A value is more than data, or is too large."""


class Rubbish(Exception):
    """What has come is no frame."""


class Frame:
    """A value that is packed, but for the number of its call. `size` is in bytes."""

    def __init__(self, told: bytes, pieces: Sequence[bytes]) -> None:
        self._told = told
        self._pieces = pieces
        self.size = len(told) + sum(map(len, pieces))

    def numbered(self, number: int) -> list[bytes]:
        """What is sent as the call of this number, or as its answer."""
        lengths = [LENGTH.pack(len(piece)) for piece in self._pieces]
        return [HEAD.pack(number, len(self._told), len(self._pieces)), *lengths, self._told, *self._pieces]


def packed(value: object) -> Frame:
    """The value as a frame: None, bool, int, finite float, str, bytes, and lists, tuples and dicts by str of these.

    Raises NotData.
    """
    packing = _Packing()
    plain = packing.plain(value, 0)
    try:
        told = orjson.dumps(plain)
    except TypeError:
        # A lone surrogate is no text.
        raise NotData("a text is no valid Unicode") from None
    if len(told) > MOST_JSON:
        raise NotData(_TOO_LARGE)
    return Frame(told, packing.pieces)


def length_within(value: object, most: int) -> int:
    """What the time to pack the value is linear in, counted up to little more than `most`."""
    length, waiting = 0, [value]
    while waiting and length <= most:
        one = waiting.pop()
        length += 1
        if isinstance(one, str | bytes | bytearray):
            length += len(one)
        elif isinstance(one, list | tuple):
            length += len(one)
            waiting += one[:most]
        elif isinstance(one, dict):
            length += len(one)
            waiting += [*one.values()] if len(one) <= most else []
    return length


def lengths_in(told: int, lengths: bytes) -> list[int]:
    """The lengths of all that follows. Raises Rubbish if it is more than is read."""
    found = [told, *(length for (length,) in LENGTH.iter_unpack(lengths))]
    if sum(found[1:]) > MOST_BYTES:
        raise Rubbish("too many bytes")
    return found


def size_of_lengths(told: int, pieces: int) -> int:
    """How many bytes the lengths take. Raises Rubbish if a head says more than is read."""
    if told > MOST_JSON or pieces > _MOST_PIECES:
        raise Rubbish("a head that says too much")
    return pieces * LENGTH.size


def unpacked(told: bytes, pieces: Sequence[bytes]) -> Any:
    """The value of a frame. Raises Rubbish."""
    try:
        value = orjson.loads(told)
        return _with_pieces(value, pieces, 0) if pieces else value
    except (ValueError, LookupError, TypeError, RecursionError):
        raise Rubbish("no JSON") from None


_TOO_LARGE = f"a value may have {MOST_JSON} bytes as JSON, and {MOST_BYTES} bytes beside it"


class _Packing:
    """Copies a value, so that nothing in it is code. Stops as soon as it is too large."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._room = MOST_JSON
        self._room_of_bytes = MOST_BYTES

    def plain(self, value: object, depth: int) -> object:
        kind = type(value)
        # With a comma, one character.
        self._take(2)
        # By identity: a subclass may be anything.
        if value is None or kind is bool:
            return value
        if kind is str:
            self._take(len(value))  # type: ignore[arg-type]
            return value
        if kind is int and value in _INTEGERS:
            return value
        if kind is float and math.isfinite(value):  # type: ignore[arg-type]
            return value
        if depth > _DEEPEST:
            raise NotData(f"a value is nested deeper than {_DEEPEST}")
        if kind is list or kind is tuple:
            return [self.plain(each, depth + 1) for each in value]  # type: ignore[attr-defined]
        if kind is dict:
            return {self._key(key): self.plain(each, depth + 1) for key, each in value.items()}  # type: ignore[attr-defined]
        if kind is bytes or kind is bytearray or kind is memoryview:
            return self._piece(value)  # type: ignore[arg-type]
        said = "that is not finite or too large" if kind is int or kind is float else "is no data"
        raise NotData(
            f"a value of type {kind.__name__} {said}; data are None, bool, int, float, str, bytes, list, dict"
        )

    def _key(self, key: object) -> str:
        if type(key) is not str or key == _PIECE:
            raise NotData("the keys of a dict have to be texts that are not empty")
        self._take(len(key))
        return key

    def _piece(self, value: bytes | bytearray | memoryview) -> object:
        piece = bytes(value)
        self._room_of_bytes -= len(piece)
        if self._room_of_bytes < 0 or len(self.pieces) >= _MOST_PIECES:
            raise NotData(_TOO_LARGE)
        self.pieces.append(piece)
        return {_PIECE: len(self.pieces) - 1}

    def _take(self, length: int) -> None:
        self._room -= length
        if self._room < 0:
            raise NotData(_TOO_LARGE)


def _with_pieces(value: Any, pieces: Sequence[bytes], depth: int) -> Any:
    if isinstance(value, list):
        return [_with_pieces(each, pieces, depth + 1) for each in value]
    if isinstance(value, dict):
        if (place := value.get(_PIECE)) is not None:
            return pieces[place]
        return {key: _with_pieces(each, pieces, depth + 1) for key, each in value.items()}
    return value
