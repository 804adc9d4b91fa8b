"""WordIndex ranks as BM25 is defined, however it gets there."""

from collections import Counter
from itertools import accumulate
from math import log
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agentic_backend.records import word_index
from agentic_backend.records.word_index import WordIndex, best
from agentic_backend.records.words import counted_words

WORDS = some.sampled_from(["a", "b", "c", "d", "e", "f"])
RECORDS = some.lists(some.lists(WORDS, max_size=12), max_size=25)
SOUGHT = some.lists(some.tuples(some.lists(WORDS, min_size=1, max_size=2, unique=True).map(tuple), some.integers(1, 3)))


def bm25(records: list[list[str]], sought: list[tuple[tuple[str, ...], int]]) -> list[float]:
    """By the definition, for each record."""
    mean = sum(map(len, records)) / len(records)
    scores = [0.0] * len(records)
    for words, times in sought:
        counts = [sum(Counter(record)[word] for word in words) for record in records]
        having = sum(count > 0 for count in counts)
        weight = times * log(1 + (len(records) - having + 0.5) / (having + 0.5))
        for at, (record, count) in enumerate(zip(records, counts, strict=True)):
            scores[at] += weight * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(record) / mean))
    return scores


# One by one, or added up by numpy.
WAYS = pytest.mark.parametrize("many", [1_000_000, 0], ids=["one by one", "added up"])


@WAYS
@given(some.lists(RECORDS, min_size=1, max_size=3), SOUGHT, some.integers(1, 6), some.sets(some.integers(0, 24)))
def test_what_is_best_is_best_by_the_definition(
    many: int, parts: list[list[list[str]]], sought: list[tuple[tuple[str, ...], int]], limit: int, gone: set[int]
) -> None:
    indexes = [WordIndex() for _ in parts]
    left: list[tuple[int, int, list[str]]] = []
    for which, (index, records) in enumerate(zip(indexes, parts, strict=True)):
        for slot, record in enumerate(records):
            index.add(counted_words([" ".join(record)], None))
            if slot not in gone:
                left.append((which, slot, record))
        for slot in gone.intersection(range(len(records))):
            index.drop(slot)
    with patch.object(word_index, "_MANY", many):
        found = best(indexes, sought, limit)
    if not any(record for _, _, record in left):
        assert found == []
        return
    scores = bm25([record for _, _, record in left], sought)
    expected = {(which, slot): score for (which, slot, _), score in zip(left, scores, strict=True) if score > 0}
    least = sorted(expected.values(), reverse=True)[limit - 1] if len(expected) > limit else 0.0
    got = {(which, slot): score for score, which, slot in found}
    assert len(got) == len(found) and len(got) >= min(limit, len(expected))
    for place, score in got.items():
        assert score == pytest.approx(expected[place]) and score >= least - 1e-9
    assert all(place in got for place, score in expected.items() if score > least + 1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_common_words_are_left_out_only_where_they_change_nothing(seed: int) -> None:
    """What is added up leaves none out, and has the same scores to the last bit."""
    random = Random(seed)
    words = [f"w{number}" for number in range(40)]
    weights = list(accumulate(1 / (rank + 1) for rank in range(40)))
    records = [random.choices(words, cum_weights=weights, k=random.randint(8, 12)) for _ in range(400)]
    index = WordIndex()
    for record in records:
        index.add(counted_words([" ".join(record)], None))
    for _ in range(40):
        sought = [((word,), 1) for word in dict.fromkeys(random.choices(words, cum_weights=weights, k=6))]
        expected = sorted(bm25(records, sought), reverse=True)[:5]
        found = sorted(best([index], sought, 5), reverse=True)[:5]
        assert [score for score, _, _ in found] == pytest.approx(expected)
        with patch.object(word_index, "_MANY", 0):
            assert sorted(best([index], sought, 5), reverse=True)[:5] == found


def test_an_index_grows_by_what_it_holds() -> None:
    index = WordIndex()
    assert index.bytes == 0
    for number in range(100):
        index.add(counted_words([f"word{number} same"], None))
    assert 5_000 < index.bytes < 100_000
