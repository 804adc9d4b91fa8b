"""DocumentReading: reads a document, cuts it and embeds its chunks; then all of that is stored, and found at once.

What it has of another edition is found until then. Where what embeds is away, nothing of the new one is stored.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from agentic_backend.application import AgenticError, Application, Document, RecordConflict, RecordWrite, Vector
from agentic_backend.applications.retrieval.chunking.chunks import CHUNKER, Chunk, chunks_of
from agentic_backend.applications.retrieval.documents import Documents, StoredDocument, owner_of
from agentic_backend.applications.retrieval.languages import language_of
from agentic_backend.applications.retrieval.library import Library, StoredCollection
from agentic_backend.applications.retrieval.records import StoredChunk
from agentic_backend.applications.retrieval.shelves import Place, Shelf

_EMBEDDED_AT_ONCE, _WRITTEN_AT_ONCE = 64, 100
ANOTHERS = timedelta(minutes=1)
"""How long ago another instance has written at most, if it is still at it."""


class NotEmbedded(Exception):
    """What embeds does not work, for this cause."""

    def __init__(self, cause: AgenticError) -> None:
        super().__init__()
        self.cause = cause


class CollectionGone(Exception):
    """The collection of the document is removed."""


class DocumentReading:
    def __init__(self, application: Application, library: Library, documents: Documents) -> None:
        self._application = application
        self._library = library
        self._documents = documents

    async def read(self, document: StoredDocument, embedder: str | None) -> None:
        """Read a document that waits; `embedder` is the model that embeds it, None has it found by its words alone.

        Raises DocumentUnreadable, NotEmbedded, CollectionGone, and RecordConflict if somebody else is at it.
        """
        await self._collection_of(document)
        document = await self._begun(document)
        value, edition = document.value, document.value.next_edition
        content = await self._documents.content(document)
        read = await self._application.read_document(value.name, content, user=owner_of(document))
        chunks = await asyncio.to_thread(chunks_of, read)
        vectors = await self._embedded(document, chunks, embedder)
        collection = await self._collection_of(document)
        language = language_of(read.text)
        index = index_of(collection.key, embedder)
        stored = [_stored(number, chunk, document, index, language, read) for number, chunk in enumerate(chunks)]
        try:
            await self._documents.keep_text(document, edition, read.text)
            await self._store(document, collection, index, stored, vectors)
            ready = await self._documents.change(
                document,
                # What it has of other editions goes next.
                state="replacing",
                edition=edition,
                reason=None,
                kind=read.kind,
                language=language,
                chunker=CHUNKER,
                embedder=embedder,
                chunks=len(chunks),
                characters=len(read.text),
                pages=len(read.pages),
            )
        except RecordConflict:
            await self._take_back(document, edition)
            raise
        await self.clean(ready)

    async def clean(self, document: StoredDocument) -> None:
        """Remove what there is of the editions that this one has replaced."""
        await self._documents.sweep(document)
        await self._documents.change(document, state="ready")

    async def _take_back(self, document: StoredDocument, edition: int) -> None:
        """Remove what was written of an edition, unless another instance is at the same one."""
        found = await self._documents.get(Place.of(document), document.key)
        # One that goes may have been swept before this was written.
        if found is not None and found.value.state != "removing":
            if edition in (found.value.edition, found.value.next_edition):
                return
        await self._documents.remove_edition(document, edition)

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

    async def _embedded(
        self, document: StoredDocument, chunks: Sequence[Chunk], embedder: str | None
    ) -> Sequence[Vector | None]:
        if embedder is None:
            return [None] * len(chunks)
        vectors: list[Vector] = []
        try:
            for first in range(0, len(chunks), _EMBEDDED_AT_ONCE):
                texts = [chunk.text for chunk in chunks[first : first + _EMBEDDED_AT_ONCE]]
                embedded = await self._application.embed(texts, user=owner_of(document), model=embedder)
                vectors += embedded.vectors
        except AgenticError as error:
            raise NotEmbedded(error) from None
        return vectors

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
        writes: list[RecordWrite] = [
            own.adding(chunk, f"{document.key}.{chunk.edition}.{chunk.number}", vector=vector)
            for chunk, vector in zip(chunks, vectors, strict=True)
        ]
        for first in range(0, len(writes), _WRITTEN_AT_ONCE):
            await self._application.write(writes[first : first + _WRITTEN_AT_ONCE])


def index_of(collection_id: str, embedder: str | None) -> str:
    """What the chunks of a collection that this model has embedded are searched within."""
    return f"{collection_id} {embedder or ''}"


def _stored(
    number: int, chunk: Chunk, document: StoredDocument, index: str, language: str | None, read: Document
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
        page=places[0].page if places else None,
    )
