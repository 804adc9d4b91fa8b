"""The vectors of records in memory, and what ranks the records by them: their cosine with another, of each computed.

The cosines are first computed roughly, of all at once, and then those of the highest again, each by itself and more
exactly: so the same vector has the same score wherever it is in memory.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentic_backend.records.vectors import NUMBER
from agentic_backend.stores.protocol.application_records import Searched

# Of a block. What is in one but not used is little of what is in all; and while numpy goes through more than 500 rows,
# it lets other threads run.
_FEWEST_ROWS, _MOST_ROWS = 16, 512
# So many are computed again at once.
_AGAIN = 512
# About what a slot takes of memory, without its numbers.
_SLOT_BYTES = 14
# What is computed while others wait for the loop is less than half a millisecond.
_NUMBERS_PER_WORK = 100

_Numbers: TypeAlias = NDArray[np.float32]
_Content: TypeAlias = bytes | None


class VectorIndex:
    column: ClassVar[Searched] = "vector"
    read_at_once: ClassVar[int] = 250

    def __init__(self) -> None:
        self._places: array[int] = array("q")
        """The number of dimensions and the row by slot; below 0: it has no vector."""
        self._by_dimensions: dict[int, _Rows] = {}
        self.number = 0
        self.gone = 0

    @property
    def bytes(self) -> int:
        return len(self._places) * _SLOT_BYTES + sum(rows.bytes for rows in self._by_dimensions.values())

    def add(self, content: _Content) -> None:
        """Add a record's vector, as `packed` has it, in the next slot; None: it has none."""
        self.number += 1
        if content is None:
            self._places.append(-1)
            return
        vector: _Numbers = np.frombuffer(content, NUMBER)
        rows = self._by_dimensions.setdefault(len(vector), _Rows(len(vector)))
        row = rows.add(len(self._places), vector)
        self._places.append(len(vector) << 32 | row)

    def drop(self, slot: int) -> None:
        self.number -= 1
        self.gone += 1
        if (place := self._places[slot]) >= 0:
            self._by_dimensions[place >> 32].free.append(place & 0xFFFFFFFF)

    def rows(self, dimensions: int) -> "_Rows":
        """The vectors of so many dimensions."""
        return self._by_dimensions.get(dimensions) or _Rows(dimensions)


class _Rows:
    """Vectors of the same number of dimensions, in blocks. Blocks stay where they are: threads may read them."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._blocks: list[_Numbers] = []
        self._starts: list[int] = []
        """The first row of each block."""
        self._room = 0
        """The number of rows in all blocks."""
        self.slots: array[int] = array("I")
        """By row."""
        self.free: list[int] = []
        """The rows whose slot is gone. They are used again."""

    @property
    def bytes(self) -> int:
        return self._room * self._dimensions * NUMBER.itemsize + 40 * len(self.free)

    def add(self, slot: int, vector: _Numbers) -> int:
        """The row that it gets."""
        if self.free:
            row = self.free.pop()
            self.slots[row] = slot
        else:
            row = len(self.slots)
            self.slots.append(slot)
        if row == self._room:
            # As many as there are already: few take little, and many are in few blocks.
            block = np.empty((max(_FEWEST_ROWS, min(row, _MOST_ROWS)), self._dimensions), np.float32)
            self._starts.append(row)
            self._blocks.append(block)
            self._room += len(block)
        block_number = bisect_right(self._starts, row) - 1
        self._blocks[block_number][row - self._starts[block_number]] = vector
        return row

    def cosines(self, vector: _Numbers) -> _Numbers:
        """Roughly, by row; those of slots that are gone are below all."""
        number = len(self.slots)
        found = np.empty(number, np.float32)
        for start, block in zip(self._starts, self._blocks, strict=True):
            # Row by row, on one core: a product of matrices takes all of them, and is hardly faster.
            np.vecdot(block[: number - start], vector, out=found[start : start + len(block)])
        found[np.array(self.free, np.intp)] = -np.inf
        return found

    def exact_cosines(self, rows: NDArray[np.intp], vector: _Numbers) -> Iterator[float]:
        """Of these rows, which have to be in order."""
        exact = vector.astype(np.float64)
        for start, block in zip(self._starts, self._blocks, strict=True):
            first, end = np.searchsorted(rows, (start, start + len(block)))
            for at in range(first, end, _AGAIN):
                some = block[rows[at : min(at + _AGAIN, end)] - start].astype(np.float64)
                # What is rounded may exceed 1 a little. A product of matrices would round by where a row is.
                yield from np.clip((some * exact).sum(axis=1), -1.0, 1.0).tolist()


class VectorQuery:
    """A vector, as `packed` has it, to which the nearest are looked for. Those with other dimensions are not found."""

    index = VectorIndex
    together = False

    def __init__(self, content: bytes) -> None:
        self._vector: _Numbers = np.frombuffer(content, NUMBER)

    def work(self, indexes: Sequence[VectorIndex]) -> int:
        dimensions = len(self._vector)
        return sum(len(index.rows(dimensions).slots) for index in indexes) * dimensions // _NUMBERS_PER_WORK

    def best(self, indexes: Sequence[VectorIndex], limit: int) -> list[tuple[float, int, int]]:
        dimensions = len(self._vector)
        of_index = [index.rows(dimensions) for index in indexes]
        rough = [rows.cosines(self._vector) for rows in of_index]
        together = np.concatenate(rough) if rough else np.empty(0, np.float32)
        # So far two rough cosines of vectors of the length 1 can be from the exact ones together.
        error = (dimensions + 2) * float(np.finfo(np.float32).eps)
        least = -2.0
        if len(together) > limit:
            least = max(least, float(np.partition(together, len(together) - limit)[len(together) - limit]) - error)
        found: list[tuple[float, int, int]] = []
        for which, (rows, cosines) in enumerate(zip(of_index, rough, strict=True)):
            high = np.flatnonzero(cosines >= least)
            exact = rows.exact_cosines(high, self._vector)
            found += [(score, which, rows.slots[row]) for row, score in zip(high.tolist(), exact, strict=True)]
        return found
