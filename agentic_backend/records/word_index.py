"""The words of records in memory, and what ranks the records by them: BM25 (Robertson and Zaragoza, 2009).

What is asked of several indexes is answered as if they were one.
"""

from array import array
from bisect import bisect_left
from collections.abc import Collection, Sequence
from heapq import nlargest
from importlib.util import find_spec
from itertools import chain
from math import log
from operator import itemgetter
from typing import ClassVar, NamedTuple, TypeAlias

from agentic_backend.records.words import read_words
from agentic_backend.stores.protocol.application_records import Searched

_K1, _B = 1.2, 0.75
# A posting is a slot and how often the word comes there, in one number of 32 bits; more often hardly changes a score.
_COUNT_BITS = 12
_MOST_COUNT = (1 << _COUNT_BITS) - 1
MOST_SLOTS = 1 << 32 - _COUNT_BITS
# Shorter postings are gone through in no time.
_LONG = 1_000
# More postings are added up by numpy, where it is installed: once it is loaded, twenty times faster.
_MANY = 10_000
# About what they take of memory.
_POSTING_BYTES, _WORD_BYTES, _SLOT_BYTES = 4.5, 250, 36

Sought = Sequence[tuple[tuple[str, ...], int]]
"""Words that are looked for: what each may be in an index, and how often it comes."""
_Numbers: TypeAlias = "array[int]"


class _Norms(NamedTuple):
    """What BM25 adds to a count for the record's length."""

    by_length: float
    """For each word of the record."""
    by_slot: "array[float]"
    least: float


class WordIndex:
    column: ClassVar[Searched] = "words"
    read_at_once: ClassVar[int] = 50

    def __init__(self) -> None:
        self._postings: dict[str, _Numbers] = {}
        """By word; those of each in the order of slots."""
        self._most: dict[str, int] = {}
        """How often a word comes in one slot at most, by word, where that is more than once."""
        self.lengths: _Numbers = array("I")
        """The number of words by slot."""
        self.number = 0
        self.length = 0
        """The number of their words."""
        self.gone_slots: set[int] = set()
        self._gone_having: dict[tuple[str, ...], int] = {}
        """The number of slots that are gone in long postings, by their words; another dict after each `drop`."""
        self._norms = _Norms(0.0, array("d"), 0.0)
        self._all = 0
        """The number of postings."""

    @property
    def bytes(self) -> int:
        return int(self._all * _POSTING_BYTES + len(self._postings) * _WORD_BYTES + len(self.lengths) * _SLOT_BYTES)

    @property
    def gone(self) -> int:
        return len(self.gone_slots)

    def add(self, counted: str) -> None:
        """Add a record's words, as `counted_words` has them, in the next slot."""
        first, length = len(self.lengths) << _COUNT_BITS, 0
        postings = self._postings
        for count, words in read_words(counted):
            kept = min(count, _MOST_COUNT)
            posting = first | kept
            length += count * len(words)
            self._all += len(words)
            for word in words:
                found = postings.get(word)
                if found is None:
                    postings[word] = array("I", (posting,))
                else:
                    found.append(posting)
            if count > 1:
                for word in words:
                    if self._most.get(word, 1) < kept:
                        self._most[word] = kept
        self.lengths.append(length)
        self.number += 1
        self.length += length

    def drop(self, slot: int) -> None:
        self.number -= 1
        self.length -= self.lengths[slot]
        self.gone_slots.add(slot)
        self._gone_having = {}

    def postings(self, words: Sequence[str]) -> _Numbers:
        """Those of the words as if they were one word."""
        found = [self._postings[word] for word in words if word in self._postings]
        if len(found) < 2:
            return found[0] if found else array("I")
        counts: dict[int, int] = {}
        for posting in chain.from_iterable(found):
            slot = posting >> _COUNT_BITS
            counts[slot] = counts.get(slot, 0) + (posting & _MOST_COUNT)
        return array("I", sorted(slot << _COUNT_BITS | min(count, _MOST_COUNT) for slot, count in counts.items()))

    def records_having(self, words: tuple[str, ...], postings: _Numbers) -> int:
        """The number of slots that are not gone in the postings of these words."""
        gone, known = self.gone_slots, self._gone_having
        if len(gone) * 16 < len(postings):
            return len(postings) - sum(_count_in(postings, slot) > 0 for slot in gone)
        if (found := known.get(words)) is None:
            found = len(gone.intersection([posting >> _COUNT_BITS for posting in postings]))
            if len(postings) > _LONG:
                known[words] = found
        return len(postings) - found

    def most(self, words: Sequence[str]) -> int:
        """How often the words come in one slot together, or less."""
        return sum(self._most.get(word, 1) for word in words if word in self._postings)

    def norms(self, by_length: float) -> "_Norms":
        known = self._norms
        if known.by_length != by_length or len(known.by_slot) != len(self.lengths):
            fixed = _K1 * (1 - _B)
            by_slot = array("d", (fixed + by_length * length for length in self.lengths))
            known = self._norms = _Norms(by_length, by_slot, min(by_slot, default=0.0))
        return known

    def without_gone(self, scores: dict[int, float]) -> dict[int, float]:
        """The scores, from which those of slots that are gone are taken."""
        for slot in self.gone_slots if scores else ():
            scores.pop(slot, None)
        return scores

    def work(self, words: Sequence[str]) -> int:
        """How many postings the words have."""
        return sum(len(self._postings[word]) for word in words if word in self._postings)


class WordQuery:
    """Words that are looked for in indexes."""

    index = WordIndex
    together = True

    def __init__(self, sought: Sought) -> None:
        self._sought = sought

    def work(self, indexes: Sequence[WordIndex]) -> int:
        return sum(index.work(words) for index in indexes for words, _ in self._sought)

    def best(self, indexes: Sequence[WordIndex], limit: int) -> list[tuple[float, int, int]]:
        return best(indexes, self._sought, limit)


def best(indexes: Sequence[WordIndex], sought: Sought, limit: int) -> list[tuple[float, int, int]]:
    """The records with the highest scores, in no order: the score, which of the indexes, and the slot.

    At least `limit`, if so many have any of the words; beyond these only ones that score as high as the last of them.
    """
    number, length = sum(index.number for index in indexes), sum(index.length for index in indexes)
    if length == 0:
        return []
    by_length = _K1 * _B * number / length
    weighed: list[tuple[float, tuple[str, ...], list[_Numbers]]] = []
    for words, count in sought:
        postings = [index.postings(words) for index in indexes]
        having = sum(index.records_having(words, each) for index, each in zip(indexes, postings, strict=True))
        weight = count * log(1 + (number - having + 0.5) / (having + 0.5))
        weighed.append((weight * (_K1 + 1), words, postings))
    # The rarest first: what has them is mostly ahead of all that has not, which then is not looked at.
    weighed.sort(key=lambda term: -term[0])
    found: list[tuple[float, int, int]] = []
    is_long = sum(len(each) for _, _, postings in weighed for each in postings) > _MANY
    for which, index in enumerate(indexes):
        norms = index.norms(by_length)
        terms = [
            _Term(weight, weight * (most := index.most(words)) / (most + norms.least), postings[which])
            for weight, words, postings in weighed
            if postings[which]
        ]
        known = [score for score, _, _ in found]
        scores = (_scores_of_many if is_long else _scores)(index, terms, norms.by_slot, limit, _last(limit, known))
        least = _last(limit, [*known, *scores.values()])
        found = [each for each in found if each[0] >= least]
        found += [(score, which, slot) for slot, score in scores.items() if score >= least]
    return found


def _last(limit: int, scores: Collection[float]) -> float:
    """The score that each of the best `limit` has at least; 0 if there are fewer."""
    return nlargest(limit, scores)[-1] if len(scores) >= limit else 0.0


class _Term(NamedTuple):
    weight: float
    most: float
    """What it adds to a score at most."""
    postings: _Numbers


def _scores_of_many(
    index: WordIndex, terms: Sequence[_Term], norms: "array[float]", limit: int, least: float
) -> dict[int, float]:
    """What `_scores` returns, without those that are not among the best."""
    if find_spec("numpy") is None:
        return _scores(index, terms, norms, limit, least)
    from agentic_backend.records.word_sums import highest_sums

    added = ((term.weight, term.postings) for term in terms)
    return highest_sums(added, norms, index.gone_slots, limit, least, count_bits=_COUNT_BITS)


def _scores(
    index: WordIndex, terms: Sequence[_Term], norms: Sequence[float], limit: int, least: float
) -> dict[int, float]:
    """The scores by slot, of all that may be among the best `limit` and have at least `least`.

    Once a record without any of the terms so far can no longer be among the best, the rest only adds to the records
    that may be (MaxScore; Turtle and Flood, 1995).
    """
    scores: dict[int, float] = {}
    for at, (weight, _, postings) in enumerate(terms):
        if len(postings) > len(scores) > 0:
            first = nlargest(limit, index.without_gone(scores).items(), key=itemgetter(1))
            least = max(least, _last(limit, _completed(dict(first), terms[at:], norms, 0.0).values()))
            if _rest(terms[at:]) < least:
                return _completed(scores, terms[at:], norms, least)
        get = scores.get
        for posting in postings:
            slot, count = posting >> _COUNT_BITS, posting & _MOST_COUNT
            scores[slot] = get(slot, 0.0) + weight * count / (count + norms[slot])
    return index.without_gone(scores)


def _completed(
    scores: dict[int, float], terms: Sequence[_Term], norms: Sequence[float], least: float
) -> dict[int, float]:
    """The scores with what the terms add to them, without those that stay below `least`."""
    for at, (weight, _, postings) in enumerate(terms):
        needed = least - _rest(terms[at:])
        scores = {slot: score for slot, score in scores.items() if score >= needed}
        for slot in scores:
            if count := _count_in(postings, slot):
                scores[slot] += weight * count / (count + norms[slot])
    return scores


def _rest(terms: Sequence[_Term]) -> float:
    """A little more than what the terms add to a score at most: sums of theirs are rounded."""
    return sum(term.most for term in terms) * (1 + 1e-9)


def _count_in(postings: _Numbers, slot: int) -> int:
    """How often the postings' word comes in the slot."""
    at = bisect_left(postings, slot << _COUNT_BITS)
    return postings[at] & _MOST_COUNT if at < len(postings) and postings[at] >> _COUNT_BITS == slot else 0
