"""Hops: from what a question names to the chunks that mention it, and from what these mention on to others."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence, Set

from agentic_backend.application import Found
from agentic_backend.applications.retrieval.graph.entities import asked_entities
from agentic_backend.applications.retrieval.records import StoredChunk
from agentic_backend.applications.retrieval.shelves import Place

Hit = Found[StoredChunk]
Search = Callable[[Sequence[str]], Awaitable[Sequence[Hit]]]
"""Finds the chunks that mention entities, given by keys, those first that mention most and the rarest."""
There = Callable[[Sequence[Hit]], Awaitable[Sequence[Hit]]]
"""Those whose documents are still there as they were found."""

_FROM = 5
"""Chunks from which the second hop goes."""
_MOST_RELATED = 16
_SECOND = 0.5
"""What a chunk of the second hop counts, beside one of the first."""


async def by_hops(question: str, search: Search, there: There) -> list[Hit]:
    """The chunks that mention what the question names, and those that mention what is mentioned there, each once, the
    best first. What is no longer `there` leads to nothing.
    """
    asked = asked_entities(question)
    first = await search(asked) if asked else ()
    related = _related({*asked}, await there(first[:_FROM])) if first else ()
    second = await search(related) if related else ()
    scores: dict[tuple[Place, str], float] = {}
    hits: dict[tuple[Place, str], Hit] = {}
    for weight, found in ((1.0, first), (_SECOND, second)):
        for hit in found:
            key = (Place.of(hit.record), hit.record.key)
            hits.setdefault(key, hit)
            scores[key] = scores.get(key, 0.0) + weight * hit.score / found[0].score
    return [hits[key] for key in sorted(hits, key=lambda key: -scores[key])]


def _related(asked: Set[str], found: Sequence[Hit]) -> list[str]:
    """The entities that are related to those that are asked for, each as often as in different chunks."""
    counts = Counter(key for hit in found for key in _beside(asked, hit.record.value) if key not in asked)
    return [key for key, count in counts.most_common(_MOST_RELATED) for _ in range(count)]


def _beside(asked: Set[str], chunk: StoredChunk) -> Collection[str]:
    if not chunk.relations:
        return chunk.entities.split()
    return dict.fromkeys(key for pair in chunk.relations if not asked.isdisjoint(pair) for key in pair)
