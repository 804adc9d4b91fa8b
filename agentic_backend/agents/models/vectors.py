"""Vectors of texts, as embedding models give them, checked. Pure."""

from array import array
from collections.abc import Sequence
from math import isfinite
from typing import Any

MOST_DIMENSIONS = 16_384


class NoVectors(Exception):
    """What a model has given are not the vectors of the texts; the text says why."""


def vectors_of(given: object, count: int) -> "list[array[float]]":
    """One vector for each of `count` texts, all of one length: of lists of numbers, or of float32 numbers as bytes.

    Raises NoVectors.
    """
    if isinstance(given, bytes):
        vectors = _cut(given, count)
    elif isinstance(given, list | tuple):
        if len(given) != count:
            raise NoVectors(f"{len(given)} vectors for {count} texts")
        vectors = [_vector(each) for each in given]
    else:
        raise NoVectors("no vectors")
    lengths = {len(vector) for vector in vectors}
    if len(lengths) > 1:
        raise NoVectors("vectors of different lengths")
    if lengths and not 0 < next(iter(lengths)) <= MOST_DIMENSIONS:
        raise NoVectors("vectors without numbers, or with too many")
    # A sum has whatever of its numbers is not finite.
    if not all(isfinite(sum(vector)) for vector in vectors):
        raise NoVectors("numbers that are not finite")
    return vectors


def _cut(given: bytes, count: int) -> "list[array[float]]":
    size, left = divmod(len(given), 4 * count)
    if left or not size:
        raise NoVectors("bytes that are no vectors of these texts")
    numbers = array("f", given)
    return [numbers[place : place + size] for place in range(0, len(numbers), size)]


def _vector(given: Any) -> "array[float]":
    try:
        if isinstance(given, Sequence) and len(given) > MOST_DIMENSIONS:
            raise NoVectors("vectors with too many numbers")
        return array("f", given)
    except (TypeError, ValueError, OverflowError):
        raise NoVectors("what are no numbers") from None
