"""Retriever: finds passages in several ways at once, and fuses what they find.

One way that fails or takes too long leaves the others. What is found is read from the database after it was ranked,
then the documents, then the rights to their collections: so nobody is given what was removed, or was no longer theirs
to read, before the question.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest

from agentic_backend.application import Application, Found, Stored, User
from agentic_backend.applications.retrieval.answering.passages import Passage
from agentic_backend.applications.retrieval.documents import Documents, StoredDocument
from agentic_backend.applications.retrieval.embedding.chosen_embedders import ChosenEmbedders
from agentic_backend.applications.retrieval.graph.hops import by_hops
from agentic_backend.applications.retrieval.languages import language_of
from agentic_backend.applications.retrieval.library import Library, StoredCollection
from agentic_backend.applications.retrieval.metrics import WAY_SECONDS
from agentic_backend.applications.retrieval.records import StoredChunk
from agentic_backend.applications.retrieval.searching.fusion import Fused, fuse, seated
from agentic_backend.applications.retrieval.shelves import Place, Shelf
from agentic_backend.applications.retrieval.vector_stores.external_vectors import ExternalVectors

log = logging.getLogger(__name__)

_DEPTHS = (40, 200, 200)
"""How many each way finds; more where much of it is no longer there."""
_MOST_WITHIN = 100
# What words weigh beside vectors, by the languages of question and document: bench/RAG.md, "Fusion".
_SAME, _UNKNOWN, _FOREIGN = 1.0, 0.3, 0.001
# That chunks share entities says little of how well they answer: the graph adds what the other ways have not found,
# behind that, and its best stands among the first eight, which a model is given.
_ADDED, SEAT = 0.5, 8
WAY_S = 10.0
"""How long a way may take."""

Hit = Found[StoredChunk]
_Key = tuple[Place, str]
"""Where a chunk is, and its key."""


@dataclass(frozen=True, slots=True)
class Way:
    """What one way of searching has done."""

    found: int
    took_ms: int
    failed: str | None = None
    """Why it, or a part of it, has found nothing, in words for people."""


@dataclass(frozen=True, slots=True)
class Retrieved:
    passages: Sequence[Passage] = ()
    """The best first."""
    ways: Mapping[str, Way] = field(default_factory=dict)
    language: str | None = None
    """Of the query."""
    hits: int = 0
    """How many chunks were found, some of which may be gone."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """In which ways is searched, and how much each counts, where somebody has chosen."""

    ways: Collection[str] = ()
    """Empty: all that there are."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """1 without one; it multiplies what the languages say."""


class Retriever:
    def __init__(
        self,
        application: Application,
        library: Library,
        documents: Documents,
        embedders: ChosenEmbedders,
        external: ExternalVectors,
        graph: bool,
    ) -> None:
        self._application = application
        self._library = library
        self._documents = documents
        self._embedders = embedders
        self._external = external
        self._graph = graph

    async def retrieve(
        self, user: User, query: str, collections: Sequence[StoredCollection], chosen: Chosen | None = None
    ) -> Retrieved:
        """What is found in these collections, as far as the user may read them now. Raises StoreUnavailable."""
        language = language_of(query)
        if not collections or not query.strip():
            return Retrieved(language=language)
        for depth in _DEPTHS:
            found = await self._retrieved(user, language, query, collections, depth, chosen or Chosen())
            if len(found.passages) >= min(found.hits, depth // 2):
                break
            # Much of what is found is of documents that are being replaced: it is looked for deeper, and where they
            # are searched now.
            collections = list((await self._library.may_read(user, collections)).values())
        return found

    async def _retrieved(
        self,
        user: User,
        language: str | None,
        query: str,
        collections: Sequence[StoredCollection],
        depth: int,
        chosen: Chosen,
    ) -> Retrieved:
        ways: list[tuple[str, Callable[[], Awaitable[list[Hit]]]]] = [
            ("words", lambda: self._by_words(query, collections, depth)),
            # Each embedding model by itself, so that one that is away leaves the others.
            *(
                ("vectors", partial(self._by_vectors, user, query, collections, depth, embedder))
                for embedder in self.embedders_of(collections)
            ),
        ]
        if self._graph:
            ways.append(("graph", lambda: self._by_graph(query, collections, depth)))
        asked = [(name, way) for name, way in ways if not chosen.ways or name in chosen.ways]
        ended = await asyncio.gather(*(_done(name, way) for name, way in asked))
        for name, _, way in ended:
            outcome = "done" if way.failed is None else "failed"
            self._application.measure(WAY_SECONDS, way.took_ms / 1000, way=name, outcome=outcome)
        rankings, told = {}, {}
        hits: dict[_Key, Hit] = {}
        for name in dict.fromkeys(name for name, _ in asked):
            found, told[name] = _together([(hits, way) for each, hits, way in ended if each == name], depth)
            rankings[name] = [_key_of(hit) for hit in found]
            hits.update((_key_of(hit), hit) for hit in found)
        by_language = weights_of(language, hits, rankings)
        fused = fuse(rankings, lambda way, key: by_language(way, key) * chosen.weights.get(way, 1.0))
        if chosen.weights.get("graph", 1.0) > 0:
            fused = seated(fused, rankings.get("graph", ()), SEAT)
        passages = await self._readable(user, [(one, hits[one.item].record.value) for one in fused], collections)
        return Retrieved(passages, told, language, len(fused))

    async def _by_words(
        self, query: str, collections: Sequence[StoredCollection], depth: int, since: float | None = None
    ) -> list[Hit]:
        async def at(place: Place, within: Sequence[str]) -> Sequence[Hit]:
            return await Shelf(self._application, place).chunks.search(query, within=within, limit=depth, since=since)

        return await _over(collections, at, lambda index: True, depth)

    def embedders_of(self, collections: Sequence[StoredCollection]) -> list[str]:
        """What embeds a question about these: what has embedded their documents, or will."""
        of = {self._embedders.of(each.value) for each in collections}
        for each in collections:
            # Where the built-in model is chosen, and there is none, nothing takes the place of the index before.
            if each.value.embedding is not None or self._embedders.of(each.value) is not None:
                of.update(index.partition(" ")[2] for index in each.value.indexes)
        return sorted(each for each in of if each and self._embedders.model_of(each) is not None)

    async def _by_graph(self, query: str, collections: Sequence[StoredCollection], depth: int) -> list[Hit]:
        # Its searches look for changes once, with the one by words.
        began = time.monotonic()

        async def search(keys: Sequence[str]) -> Sequence[Hit]:
            # Few, as they only add to what the others find.
            return await self._by_words(" ".join(keys), collections, depth // 8, began)

        return await by_hops(query, search, self._there)

    async def _there(self, hits: Sequence[Hit]) -> Sequence[Hit]:
        documents = await self._documents.several({(Place.of(hit.record), hit.record.value.document) for hit in hits})
        return [
            hit
            for hit in hits
            if (document := documents.get((Place.of(hit.record), hit.record.value.document))) is not None
            and is_there(document, hit.record.value.edition)
        ]

    async def _by_vectors(
        self, user: User, query: str, collections: Sequence[StoredCollection], depth: int, embedder: str
    ) -> list[Hit]:
        model = self._embedders.model_of(embedder)
        embedded = await self._application.embed([query], user=user, model=model, kind="query")
        if self._embedders.is_external(embedder):
            return await self._by_external(embedded.vectors[0], collections, depth, embedder)

        async def at(place: Place, within: Sequence[str]) -> Sequence[Hit]:
            chunks = Shelf(self._application, place).chunks
            return await chunks.nearest(embedded.vectors[0], within=within, limit=depth)

        return await _over(collections, at, lambda index: index.partition(" ")[2] == embedder, depth)

    async def _by_external(
        self, vector: Sequence[float], collections: Sequence[StoredCollection], depth: int, embedder: str
    ) -> list[Hit]:
        places = {
            index: Place.of(each)
            for each in collections
            for index in each.value.indexes
            if index.partition(" ")[2] == embedder
        }
        found = await self._external.nearest(vector, list(places), depth) if places else []
        keys: dict[Place, list[str]] = {}
        for index, key in found:
            # Of a store that finds what it was not asked for nothing is taken: this raises KeyError.
            keys.setdefault(places[index], []).append(key)
        # The store may have more than there is, and says nothing of what may be found.
        there: dict[str, Stored[StoredChunk]] = {}
        for place, some in keys.items():
            rows = await Shelf(self._application, place).chunks.get_several(some)
            there.update((key, row) for key, row in rows.items() if row.value.index in places)
        return [Found(there[key], 1 / rank) for rank, (_, key) in enumerate(found, start=1) if key in there]

    async def _readable(
        self,
        user: User,
        fused: Sequence[tuple[Fused[_Key], StoredChunk]],
        collections: Sequence[StoredCollection],
    ) -> list[Passage]:
        documents = await self._documents.several({(one.item[0], chunk.document) for one, chunk in fused})
        # Last, so that what was read before was theirs to read.
        readable = await self._library.may_read(user, collections)
        passages = []
        for one, chunk in fused:
            document = documents.get((one.item[0], chunk.document))
            if document is not None and is_there(document, chunk.edition) and document.value.collection in readable:
                passages.append(_passage(one, chunk, document, readable[document.value.collection]))
        return passages


def weights_of(
    language: str | None, hits: Mapping[_Key, Hit], rankings: Mapping[str, Sequence[_Key]]
) -> Callable[[str, _Key], float]:
    """How much each way counts for a chunk: beside vectors, words of another language say next to nothing of it; the
    graph says nothing of what another way has found.
    """
    has_vectors = bool(rankings.get("vectors"))
    others = {key for way, ranking in rankings.items() if way != "graph" for key in ranking}

    def weight(way: str, key: _Key) -> float:
        if way == "graph":
            return 0.0 if key in others else _ADDED
        spoken = hits[key].record.value.language
        if way != "words" or not has_vectors:
            return 1.0
        return _FOREIGN if language != spoken else _UNKNOWN if language is None else _SAME

    return weight


async def _over(
    collections: Sequence[StoredCollection],
    search: Callable[[Place, Sequence[str]], Awaitable[Sequence[Hit]]],
    is_fit: Callable[[str], bool],
    depth: int,
) -> list[Hit]:
    """What a search of each owner's collections finds, the best of all first."""
    indexes: dict[Place, list[str]] = {}
    for each in collections:
        indexes.setdefault(Place.of(each), []).extend(filter(is_fit, each.value.indexes))
    searches = [
        search(place, within[first : first + _MOST_WITHIN])
        for place, within in indexes.items()
        for first in range(0, len(within), _MOST_WITHIN)
    ]
    found = [hit for hits in await asyncio.gather(*searches) for hit in hits]
    return sorted(found, key=lambda hit: (-hit.score, hit.record.key))[:depth]


async def _done(name: str, way: Callable[[], Awaitable[list[Hit]]]) -> tuple[str, list[Hit], Way]:
    began = time.monotonic()
    try:
        async with asyncio.timeout(WAY_S):
            found = await way()
    except Exception as error:
        # Whatever it is, the other ways may do without this one.
        told = "It took too long." if isinstance(error, TimeoutError) else "It is not available."
        log.warning("way of retrieval failed", extra={"way": name, "error": type(error).__name__})
        return name, [], Way(0, _since(began), told)
    return name, found, Way(len(found), _since(began))


def _together(parts: Sequence[tuple[list[Hit], Way]], depth: int) -> tuple[list[Hit], Way]:
    """What the parts of a way have found and done, by their ranks: scores of different models can't be compared."""
    ranked = [hit for hits in zip_longest(*(found for found, _ in parts)) for hit in hits if hit is not None][:depth]
    failed = next((way.failed for _, way in parts if way.failed is not None), None)
    return ranked, Way(len(ranked), max(way.took_ms for _, way in parts), failed)


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _key_of(hit: Hit) -> _Key:
    return Place.of(hit.record), hit.record.key


def is_there(document: StoredDocument, edition: int) -> bool:
    """Whether what is stored of this edition is what the document says."""
    return document.value.state != "removing" and document.value.edition == edition


def _passage(one: Fused[_Key], chunk: StoredChunk, document: StoredDocument, collection: StoredCollection) -> Passage:
    return Passage(
        place=one.item[0],
        document=chunk.document,
        edition=chunk.edition,
        name=document.value.name,
        collection=collection.value.title,
        collection_id=collection.key,
        start=chunk.start,
        end=chunk.end,
        path=chunk.path,
        text=chunk.text,
        numbers=(chunk.number,),
        page=chunk.page,
        language=chunk.language,
        score=one.score,
        ranks=one.ranks,
    )
