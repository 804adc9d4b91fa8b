"""VectorIndex finds what is nearest by the definition, whatever was added and dropped before."""

from array import array
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agentic_backend.records.vector_index import VectorIndex, VectorQuery
from agentic_backend.records.vectors import packed

# Few numbers, so that many cosines are the same.
NUMBERS = some.sampled_from([-2.0, -1.0, 0.0, 1.0, 3.0])
VECTORS = some.integers(1, 3).flatmap(lambda n: some.lists(NUMBERS, min_size=n, max_size=n)).filter(any)
PARTS = some.lists(some.lists(some.none() | VECTORS, max_size=25), min_size=1, max_size=3)


def cosine(one: bytes, other: bytes) -> float:
    found = 0.0
    for a, b in zip(array("f", one), array("f", other), strict=True):
        found += a * b
    return max(-1.0, min(found, 1.0))


def nearest(indexes: list[VectorIndex], query: bytes, limit: int) -> list[tuple[float, int, int]]:
    found = VectorQuery(query).best(indexes, limit)
    return sorted((-score, which, slot) for score, which, slot in found)[:limit]


@given(PARTS, VECTORS, some.integers(1, 6), some.sets(some.integers(0, 24)))
def test_what_is_nearest_is_nearest_by_the_definition(
    parts: list[list[list[float] | None]], query: list[float], limit: int, gone: set[int]
) -> None:
    indexes, sought = [VectorIndex() for _ in parts], packed(query)
    expected: list[tuple[float, int, int]] = []
    for which, (index, vectors) in enumerate(zip(indexes, parts, strict=True)):
        for slot, vector in enumerate(vectors):
            content = None if vector is None else packed(vector)
            index.add(content)
            if content is not None and len(content) == len(sought) and slot not in gone:
                expected.append((-cosine(content, sought), which, slot))
        for slot in gone.intersection(range(len(vectors))):
            index.drop(slot)
        assert (index.number, index.gone) == (len({*range(len(vectors))} - gone), len(gone & {*range(len(vectors))}))
    assert nearest(indexes, sought, limit) == sorted(expected)[:limit]


def test_the_same_vector_has_the_same_score_wherever_it_is() -> None:
    random = Random(1)
    query, same, *others = (packed([random.gauss() for _ in range(384)]) for _ in range(3_000))
    indexes = [VectorIndex(), VectorIndex()]
    for number, other in enumerate(others):
        indexes[number % 2].add(same if number % 7 == 0 else other)
    found = nearest(indexes, query, 3_000)
    scores = [score for score, which, slot in found if (2 * slot + which) % 7 == 0]
    assert len(scores) == 429 and len(set(scores)) == 1
    assert [score for score, _, _ in nearest(indexes, same, 430)[:429]] == pytest.approx([-1.0] * 429, abs=1e-6)
    # More than are computed again at once.
    alike = VectorIndex()
    for _ in range(2_000):
        alike.add(same)
    assert [slot for _, _, slot in nearest([alike], query, 3)] == [0, 1, 2]


def test_an_index_grows_by_what_it_holds() -> None:
    index, vector = VectorIndex(), packed([1.0] * 100)
    assert index.bytes == 0
    for number in range(1, 3_000):
        index.add(vector)
        assert 400 * number < index.bytes < 16 * 400 + 2 * 420 * number
    assert index.bytes < 1.2 * 400 * 3_000
    # What takes the place of another takes its memory.
    before = index.bytes
    for slot in range(1_000):
        index.drop(slot)
        index.add(vector)
    index.add(None)
    assert index.bytes < before + 20 * 1_001
    assert len(nearest([index], vector, 5_000)) == index.number - 1 == 2_999
