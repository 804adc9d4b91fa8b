"""Finds the sources and results of tools whose content has a statement's figures and words. Pure and deterministic.

A text is looked at in passages of some 600 characters. A passage supports a statement if it has all of its figures,
except those that the tool was given, and beside that

- a telling figure and a word; or two telling figures; or one that has four digits or more and is no year; or one in a
  text without words;
- or half of its words, and three of them at least; two are enough if one is a name.

What the user has said in the message proves nothing: a figure that is in it does not tell, and one of the words must
not be in it. Nor do figures of one digit tell. Words count from four letters on, names from three, without those that
any text has (COMMON_WORDS). What occurs all over the texts counts for nothing either.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agentic_backend.trust.common_words import COMMON_WORDS
from agentic_backend.trust.tokens import Figure, Tokens, Wanted, folded, has_only_figures, is_pair, names_of, tokens_of

_BLOCK = 300
"""Characters of a block; two neighbours are a passage. A block ends with a word, unless that is very long."""
_REST_OF_WORD = re.compile(r"\S{0,100}")
_EVERYWHERE = 12
"""A token in more blocks than this is everywhere."""
_SHORTEST_WORD = 4
_MOST_GROUNDS = 8
_ENOUGH, _ENOUGH_WITH_NAME = 6, 4
"""The least weight of a statement's words in a passage, and where one of them is a name."""


class Evidence(NamedTuple):
    """A text that statements may rest on, and the id of the tool call or of the source that it is of.

    `given` is what the tool was called with.
    """

    id: str
    text: str
    given: str = ""


class _Claim(NamedTuple):
    """What a statement says: its figures and its words that count.

    Of the words, `names` are names, and `pairs` are only parts of words.
    """

    figures: set[Figure]
    words: set[str]
    names: set[str]
    pairs: set[str]

    @property
    def tokens(self) -> set[str]:
        return self.words.union(*self.figures)

    def weight(self, words: set[str]) -> int:
        """The weight of some of its words: two for each, one for a pair."""
        return 2 * len(words) - len(words & self.pairs)


def matches(statements: Sequence[str], evidence: Sequence[Evidence], asked: str) -> list[list[str]]:
    """The ids of what each statement rests on, in the order of `evidence`. `asked` is the user's message."""
    claims = [_claim_of(statement) for statement in statements]
    blocks = _Blocks(evidence, Wanted(token for claim in claims for token in claim.tokens))
    said = tokens_of(asked)
    return [blocks.supporting(claim, said) for claim in claims]


def _claim_of(statement: str) -> _Claim:
    figures, words = tokens_of(statement)
    names = (names_of(statement) & words) - COMMON_WORDS
    pairs = set(filter(is_pair, words))
    long = {word for word in words if len(word) >= _SHORTEST_WORD} - COMMON_WORDS
    return _Claim(figures, long | names | pairs, names, pairs)


class _Blocks:
    def __init__(self, evidence: Sequence[Evidence], wanted: Wanted) -> None:
        self._ids: list[str | None] = []
        """The id of each block's text, by the block's number; None between two texts."""
        self._places: dict[str, list[int]] = defaultdict(list)
        """The numbers of the blocks that have a wanted token, by the token; one more than _EVERYWHERE at most."""
        self._given: dict[str, set[str]] = {}
        """The wanted tokens that each tool was given, by the id of its call."""
        self._bare: set[str] = set()
        """The ids of the texts that have only figures."""
        for id, text, given in evidence:
            content = folded(text)
            self._given[id] = wanted.among(folded(given))
            if has_only_figures(content):
                self._bare.add(id)
            for block in _blocks(content):
                for token in wanted.among(block):
                    if len(places := self._places[token]) <= _EVERYWHERE:
                        places.append(len(self._ids))
                self._ids.append(id)
            self._ids.append(None)

    def _is_everywhere(self, token: str) -> bool:
        return len(self._places.get(token, ())) > _EVERYWHERE

    def supporting(self, claim: _Claim, said: Tokens) -> list[str]:
        """The ids of the texts with a passage that supports the claim."""
        figures = {figure for figure in claim.figures if not any(map(self._is_everywhere, figure))}
        words = {word for word in claim.words if not self._is_everywhere(word)}
        claim = claim._replace(figures=figures, words=words)
        half = claim.weight(words) / 2
        ids: dict[str, None] = {}
        for place, found in sorted(self._passages(claim)):
            id = self._ids[place]
            if id is not None and id not in ids and self._supports(id, found, claim, half, said):
                ids[id] = None
        return list(ids)[:_MOST_GROUNDS]

    def _supports(self, id: str, found: set[str], claim: _Claim, half: float, said: Tokens) -> bool:
        """Whether a passage with these tokens supports the claim, half of whose words weigh `half`."""
        there = found | self._given[id]
        if any(figure.isdisjoint(there) for figure in claim.figures):
            return False
        words = claim.words & found
        telling = [one for one in claim.figures - said.figures if _digits(one) > 1 and not one.isdisjoint(found)]
        if telling and (words or len(telling) > 1 or id in self._bare or any(map(_tells_alone, telling))):
            return True
        enough = _ENOUGH_WITH_NAME if words & claim.names - said.words else _ENOUGH
        weight = claim.weight(words)
        return weight >= max(enough, half) and not words <= said.words

    def _passages(self, claim: _Claim) -> Iterator[tuple[int, set[str]]]:
        """The passages that have a token of the claim: the number of the first block, and the tokens."""
        passages: dict[int, set[str]] = defaultdict(set)
        for token in claim.tokens:
            for place in self._places.get(token, ()):
                passages[place].add(token)
                if place and self._ids[place - 1] is not None:
                    passages[place - 1].add(token)
        yield from passages.items()


def _blocks(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        rest = _REST_OF_WORD.match(text, start + _BLOCK)
        end = rest.end() if rest is not None else len(text)
        yield text[start:end]
        start = end


def _digits(figure: Figure) -> int:
    return max(len(reading.replace(".", "")) for reading in figure)


def _tells_alone(figure: Figure) -> bool:
    is_year = any(len(reading) == 4 and reading[:2] in ("19", "20") for reading in figure)
    return _digits(figure) >= 4 and not is_year
