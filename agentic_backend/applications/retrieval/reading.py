"""DocumentReading: reads a document, cuts it and embeds its chunks; then all of that is stored, and found at once.

What it has of another edition is found until then. Where what embeds is away, nothing of the new one is stored.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from agentic_backend.application import (
    AgenticError,
    Application,
    ApplicationUnavailable,
    Document,
    Point,
    RecordConflict,
    RecordWrite,
    Vector,
)
from agentic_backend.applications.retrieval.answering.pipeline import TOOL
from agentic_backend.applications.retrieval.chunking.chunks import CHUNKER, Chunk, chunks_of
from agentic_backend.applications.retrieval.documents import Documents, StoredDocument, owner_of
from agentic_backend.applications.retrieval.embedding.chosen_embedders import ChosenEmbedders
from agentic_backend.applications.retrieval.graph.mentions import (
    ASKED_AT_ONCE,
    Mentioned,
    by_model,
    by_noun_phrases,
)
from agentic_backend.applications.retrieval.languages import language_of
from agentic_backend.applications.retrieval.library import Library, StoredCollection
from agentic_backend.applications.retrieval.records import StoredChunk
from agentic_backend.applications.retrieval.shelves import Place, Shelf
from agentic_backend.applications.retrieval.vector_stores.external_vectors import ExternalVectors

log = logging.getLogger(__name__)

_EMBEDDED_AT_ONCE, _WRITTEN_AT_ONCE = 64, 100
NOT_EMBEDDED = "It is not found by meaning yet:"
ANOTHERS = timedelta(minutes=1)
"""How long ago another instance has written at most, if it is still at it."""


class NotEmbedded(Exception):
    """What embeds does not work, for this cause."""

    def __init__(self, cause: AgenticError) -> None:
        super().__init__()
        self.cause = cause


class CollectionGone(Exception):
    """The collection of the document is removed."""


class ModelChanged(Exception):
    """The collection of the document has another embedding model than when the document was begun."""


class NoModules(Exception):
    """No module can look at texts that leave the server, as in a command: the document is left to a server."""


class DocumentReading:
    def __init__(
        self,
        application: Application,
        library: Library,
        documents: Documents,
        embedders: ChosenEmbedders,
        external: ExternalVectors,
        graph_model: str | None,
    ) -> None:
        """`graph_model` is the model that says what chunks mention; None has noun phrases say it."""
        self._application = application
        self._library = library
        self._documents = documents
        self._embedders = embedders
        self._external = external
        self._graph_model = graph_model

    async def read(self, document: StoredDocument, not_embedded: str | None) -> None:
        """Read a document that waits; `not_embedded` says why it is found by its words alone, if it is to be.

        Raises DocumentUnreadable, NotEmbedded, CollectionGone, ModelChanged, NoModules, and RecordConflict if somebody
        else is at it.
        """
        collection = await self._collection_of(document)
        embedder = self._embedders.of(collection.value) if not_embedded is None else None
        if embedder is None and not_embedded is None and collection.value.embedding is not None:
            not_embedded = f"{NOT_EMBEDDED} the server has no embedding model '{collection.value.embedding}'."
        await self._require_budget(document, embedder)
        document = await self._begun(document)
        value, edition = document.value, document.value.next_edition
        content = await self._documents.content(document)
        read = await self._application.read_document(value.name, content, user=owner_of(document))
        chunks = await asyncio.to_thread(chunks_of, read)
        vectors = await self._embedded(document, chunks, embedder)
        # Behind what may fail and be tried again: what a model says costs something each time.
        mentioned = await self._mentioned(document, chunks)
        collection = await self._collection_of(document)
        language = language_of(read.text)
        index = index_of(collection.key, embedder)
        is_external = embedder is not None and self._embedders.is_external(embedder)
        dimensions = [None if vector is None or not is_external else len(vector) for vector in vectors]
        stored = [
            _stored(number, chunk, mentions, document, index, language, read, dimensions[number])
            for number, (chunk, mentions) in enumerate(zip(chunks, mentioned, strict=True))
        ]
        try:
            await self._documents.keep_text(document, edition, read.text)
            await self._store(document, collection, index, stored, vectors)
            ready = await self._documents.change(
                document,
                # What it has of other editions goes next.
                state="replacing",
                edition=edition,
                reason=not_embedded,
                kind=read.kind,
                language=language,
                chunker=CHUNKER,
                embedder=embedder,
                chunks=len(chunks),
                embedded_bytes=sum(len(chunk.text.encode(errors="replace")) for chunk in chunks),
                characters=len(read.text),
                pages=len(read.pages),
            )
        except RecordConflict:
            await self._take_back(document, edition, stored)
            raise
        # Another instance may have left it out, before this document was in it.
        await self._library.search_within(await self._collection_of(document), index)
        await self.clean(ready)

    async def clean(self, document: StoredDocument) -> None:
        """Remove what there is of the editions that this one has replaced."""
        await self._documents.sweep(document)
        await self._documents.change(document, state="ready")

    async def _take_back(self, document: StoredDocument, edition: int, chunks: Sequence[StoredChunk]) -> None:
        """Remove what was written of an edition, unless another instance is at the same one."""
        found = await self._documents.get(Place.of(document), document.key)
        # One that goes may have been swept before this was written.
        if found is not None and found.value.state != "removing":
            if edition in (found.value.edition, found.value.next_edition):
                return
        await self._documents.remove_edition(document, edition)
        for first in range(0, len(chunks), _WRITTEN_AT_ONCE):
            # Also of those that are gone already, as others have removed them before their vectors were added.
            some = {_key_of(document, each): each for each in chunks[first : first + _WRITTEN_AT_ONCE]}
            await self._application.write(self._external.leaving(some))

    async def _collection_of(self, document: StoredDocument) -> StoredCollection:
        """Raises CollectionGone."""
        collection = await self._library.at(Place.of(document), document.value.collection)
        if collection is None or collection.value.removing:
            raise CollectionGone
        return collection

    async def _begun(self, document: StoredDocument) -> StoredDocument:
        """The document, in an edition of which nothing is there. Raises RecordConflict if another instance is at it."""
        own = Shelf(self._application, Place.of(document)).chunks
        there = await own.find("of", document.key, document.value.next_edition, descending=True, limit=1)
        if not there.records:
            return document
        if there.records[0].created_at > datetime.now(UTC) - ANOTHERS:
            raise RecordConflict
        return await self._documents.read_again(document)

    async def _require_budget(self, document: StoredDocument, embedder: str | None) -> None:
        """Before it is read for nothing. Raises NotEmbedded."""
        if embedder is None:
            return
        try:
            if self._embedders.is_external(embedder):
                self._external.require()
            await self._application.embed([], user=owner_of(document), model=self._embedders.model_of(embedder))
        except AgenticError as error:
            raise NotEmbedded(error) from None

    async def _mentioned(self, document: StoredDocument, chunks: Sequence[Chunk]) -> Sequence[Mentioned]:
        texts = [chunk.text for chunk in chunks]
        mentioned = await asyncio.to_thread(by_noun_phrases, texts)
        if self._graph_model is None:
            return mentioned
        ask = partial(self._application.ask_model, user=owner_of(document), model=self._graph_model)
        try:
            for first in range(0, len(texts), ASKED_AT_ONCE):
                last = first + ASKED_AT_ONCE
                given = [await self._reviewed(document, text) for text in texts[first:last]]
                mentioned[first:last] = await by_model(ask, given) or mentioned[first:last]
        except AgenticError as error:
            # Of the rest it isn't asked: what keeps it from answering may take its time for each.
            log.warning("entities not found by model", extra={"model": self._graph_model, "code": error.code})
        return mentioned

    async def _embedded(
        self, document: StoredDocument, chunks: Sequence[Chunk], embedder: str | None
    ) -> Sequence[Vector | None]:
        if embedder is None:
            return [None] * len(chunks)
        model = self._embedders.model_of(embedder)
        vectors: list[Vector | None] = []
        try:
            for first in range(0, len(chunks), _EMBEDDED_AT_ONCE):
                texts = [chunk.text for chunk in chunks[first : first + _EMBEDDED_AT_ONCE]]
                if self._embedders.is_elsewhere(embedder):
                    texts = [await self._reviewed(document, text) for text in texts]
                    await self._require_chosen(document, embedder)
                given = [text for text in texts if text.strip()]
                embedded = await self._application.embed(given, user=owner_of(document), model=model)
                made = iter(embedded.vectors)
                vectors += [next(made) if text.strip() else None for text in texts]
        except AgenticError as error:
            raise NotEmbedded(error) from None
        return vectors

    async def _require_chosen(self, document: StoredDocument, embedder: str) -> None:
        """Before more of it leaves the server. Raises ModelChanged and CollectionGone."""
        if self._embedders.of((await self._collection_of(document)).value) != embedder:
            raise ModelChanged

    async def _reviewed(self, document: StoredDocument, text: str) -> str:
        """What modules leave of a text that leaves the server, as they would of a passage. Raises NoModules."""
        try:
            reviewed = await self._application.review(
                text,
                user=owner_of(document),
                agent_id=self._application.settings.runs_agent,
                point=Point.TOOL_RESULT,
                tool=TOOL,
                within=document.key,
            )
        except ApplicationUnavailable:
            raise NoModules from None
        return reviewed.text

    async def _store(
        self,
        document: StoredDocument,
        collection: StoredCollection,
        index: str,
        chunks: Sequence[StoredChunk],
        vectors: Sequence[Vector | None],
    ) -> None:
        own = Shelf(self._application, Place.of(document)).chunks
        await self._library.search_within(collection, index)
        for first in range(0, len(chunks), _WRITTEN_AT_ONCE):
            some = slice(first, first + _WRITTEN_AT_ONCE)
            writes: list[RecordWrite] = []
            external: dict[str, Vector] = {}
            for chunk, vector in zip(chunks[some], vectors[some], strict=True):
                key = _key_of(document, chunk)
                if vector is not None and chunk.dimensions is not None:
                    external[key], vector = vector, None
                writes.append(own.adding(chunk, key, vector=vector))
            await self._application.write(writes)
            try:
                await self._external.add(index, external)
            except ApplicationUnavailable as error:
                # In another edition: what there is of this one in the store goes, sooner or later.
                await self._documents.read_again(document)
                await self._documents.remove_edition(document, document.value.next_edition)
                raise NotEmbedded(error) from None


def _key_of(document: StoredDocument, chunk: StoredChunk) -> str:
    return f"{document.key}.{chunk.edition}.{chunk.number}"


def index_of(collection_id: str, embedder: str | None) -> str:
    """What the chunks of a collection that this model has embedded are searched within."""
    return f"{collection_id} {embedder or ''}"


def _stored(
    number: int,
    chunk: Chunk,
    mentions: Mentioned,
    document: StoredDocument,
    index: str,
    language: str | None,
    read: Document,
    dimensions: int | None,
) -> StoredChunk:
    places = read.places(chunk.start, chunk.end)
    return StoredChunk(
        index=index,
        document=document.key,
        edition=document.value.next_edition,
        number=number,
        start=chunk.start,
        end=chunk.end,
        path=chunk.path,
        kind=chunk.kind,
        text=chunk.text,
        language=language,
        entities=" ".join(mentions.entities),
        relations=mentions.relations,
        page=places[0].page if places else None,
        dimensions=dimensions,
    )
