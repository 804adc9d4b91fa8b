"""Weighted reciprocal rank fusion: rankings of the same things become one. Pure."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

_CONSTANT = 60
"""How little the first ranks count for more than later ones; the usual value."""


@dataclass(frozen=True, slots=True)
class Fused(Generic[T]):
    """Something that was found, and why it was taken."""

    item: T
    score: float
    ranks: Mapping[str, int] = field(default_factory=dict)
    """Its place in each ranking that has it, from 1."""


def fuse(
    rankings: Mapping[str, Sequence[T]], weight: Callable[[str, T], float] = lambda ranking, item: 1
) -> list[Fused[T]]:
    """What the rankings have, each once, the best first; what has the same score in the order of the rankings.

    Each ranking gives a thing its weight there, which is 0 or more, over 60 + its place.
    """
    scores: dict[T, float] = {}
    ranks: dict[T, dict[str, int]] = {}
    for name, ranking in rankings.items():
        for place, item in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + weight(name, item) / (_CONSTANT + place)
            ranks.setdefault(item, {})[name] = place
    return sorted((Fused(item, score, ranks[item]) for item, score in scores.items()), key=lambda one: -one.score)


def seated(fused: Sequence[Fused[T]], ranking: Sequence[T], place: int) -> list[Fused[T]]:
    """What was fused, in which the first of a ranking that is not before this place, from 1, stands there."""
    first, rest = fused[: place - 1], fused[place - 1 :]
    before = {one.item for one in first}
    seat = next((item for item in ranking if item not in before), None)
    return [*first, *sorted(rest, key=lambda one: one.item != seat)]
