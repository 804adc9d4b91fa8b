"""Vectors as they are stored: numbers of 32 bits with the lowest byte first, of the length 1 together."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentic_backend.records.kinds import Vector

MOST_DIMENSIONS = 4_096
NUMBER = np.dtype("<f4")
"""How one number is stored."""


def packed(vector: Vector) -> bytes:
    """What is stored of the vector.

    Raises TypeError if it is none, and ValueError if it has too many numbers or none, one that is not finite, or only
    zeros.
    """
    numbers = _numbers(vector)
    if not 0 < len(numbers) <= MOST_DIMENSIONS:
        raise ValueError(f"a vector has to have 1 to {MOST_DIMENSIONS} numbers")
    largest = np.abs(numbers).max()
    if not np.isfinite(largest):
        raise ValueError("a number of a vector is not finite")
    if largest == 0:
        raise ValueError("a vector of zeros has no direction")
    # First by the largest, since squares of large and of small numbers have no form.
    scaled = numbers / largest
    found: NDArray[np.float32] = (scaled / np.sqrt((scaled * scaled).sum())).astype(NUMBER)
    return found.tobytes()


def _numbers(vector: Any) -> NDArray[np.float64]:
    is_packed = isinstance(vector, bytes | bytearray | memoryview)
    try:
        # Longer ones are not even looked at.
        if len(vector) > MOST_DIMENSIONS * NUMBER.itemsize:
            return np.empty(0)
        found: NDArray[Any] = np.frombuffer(vector, NUMBER) if is_packed else np.asarray(vector)
    except (TypeError, ValueError, BufferError):
        raise TypeError("a vector has to be numbers, or their bytes, four each") from None
    if found.ndim != 1 or found.dtype.kind not in "fiu":
        raise TypeError("a vector has to be numbers, or their bytes, four each")
    return found.astype(np.float64)
