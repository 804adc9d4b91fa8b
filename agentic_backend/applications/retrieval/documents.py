"""Documents: the files of collections, with what is stored of their contents and texts."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import suppress
from hashlib import sha256
from time import time_ns
from typing import BinaryIO, TypeVar

from agentic_backend.application import (
    AgenticError,
    Application,
    AttachmentView,
    OwnRecords,
    RecordConflict,
    RecordPage,
    RecordWrite,
    Stored,
    User,
)
from agentic_backend.applications.retrieval.library import StoredCollection
from agentic_backend.applications.retrieval.records import (
    OF_SESSIONS,
    OF_USERS,
    PIECE_BYTES,
    DocumentState,
    Piece,
    SourceFile,
    StoredChunk,
)
from agentic_backend.applications.retrieval.shelves import Place, Shelf
from agentic_backend.applications.retrieval.vector_stores.external_vectors import ExternalVectors

StoredDocument = Stored[SourceFile]
Part = TypeVar("Part", Piece, StoredChunk)

_WRITTEN_AT_ONCE, _READ_AT_ONCE = 8, 100
_REMOVED_AT_ONCE = 99
"""With a note of their vectors these are as many as are written at once."""
_TRIES = 5
_TAKEN = ("waiting", "replacing", "ready")
"""States of documents whose content has come whole."""


class Documents:
    def __init__(self, application: Application, external: ExternalVectors) -> None:
        self._application = application
        self._external = external

    async def put(
        self, collection: StoredCollection, name: str, file: BinaryIO, source: str | None = None
    ) -> tuple[StoredDocument, bool]:
        """Put a file into the collection, in the place of one with this name; whether its content is a new one.

        Nothing is done for one that is there already. `source` is the folder that it is from. Raises LimitReached, and
        RecordConflict if somebody else puts it.
        """
        shelf = self._at(Place.of(collection))
        size, digest = await asyncio.to_thread(_measured, file)
        key = key_of(collection.key, name)
        for left in reversed(range(_TRIES)):
            before = await shelf.documents.get(key)
            if before is not None and _is_of(before, digest):
                if source not in (None, before.value.source) and before.value.state == "ready":
                    before = await self.change(before, source=source)
                return before, False
            edition = _first_edition() if before is None else before.value.next_edition + 1
            new = SourceFile(
                collection=collection.key,
                name=name,
                sha256=digest,
                size=size,
                state="receiving",
                edition=0,
                next_edition=edition,
                source=source,
            )
            try:
                stored = await _receiving(shelf.documents, key, before, new)
                break
            except RecordConflict:
                # The ingestion goes on with what is there, at the same moment.
                if not left:
                    raise
        try:
            await self._write_pieces(shelf.contents, key, edition, file)
            return await self.change(stored, state="waiting", content_edition=edition), True
        except AgenticError:
            with suppress(AgenticError):
                await self._take_back(stored)
            raise

    async def has(self, collection: StoredCollection, name: str, file: BinaryIO) -> bool:
        """Whether this file is there already, under this name."""
        _, digest = await asyncio.to_thread(_measured, file)
        there = await self._at(Place.of(collection)).documents.get(key_of(collection.key, name))
        return there is not None and _is_of(there, digest)

    async def put_attachment(self, collection: StoredCollection, attachment: AttachmentView) -> StoredDocument | None:
        """Let a file of a conversation be read, which is stored already; None if it is there."""
        shelf, key = self._at(Place.of(collection)), key_of(collection.key, attachment.id)
        if await shelf.documents.get(key) is not None:
            return None
        waiting = SourceFile(
            collection=collection.key,
            name=attachment.name,
            sha256="",
            size=attachment.size,
            state="waiting",
            edition=0,
            next_edition=1,
            attachment=attachment.id,
        )
        with suppress(RecordConflict):
            return await shelf.documents.add(waiting, key)
        return None

    async def get(self, place: Place, key: str) -> StoredDocument | None:
        return await self._at(place).documents.get(key)

    async def several(self, places: Collection[tuple[Place, str]]) -> dict[tuple[Place, str], StoredDocument]:
        """Those that there are, by place and key."""
        keys: dict[Place, list[str]] = {}
        for place, key in places:
            keys.setdefault(place, []).append(key)
        found: dict[tuple[Place, str], StoredDocument] = {}
        for place, some in keys.items():
            for first in range(0, len(some), _READ_AT_ONCE):
                there = await self._at(place).documents.get_several(some[first : first + _READ_AT_ONCE])
                found.update(((place, key), each) for key, each in there.items())
        return found

    async def of_collection(
        self, collection: StoredCollection, limit: int = 200, cursor: str | None = None
    ) -> RecordPage[SourceFile]:
        """A page of the collection's documents."""
        own = self._at(Place.of(collection)).documents
        return await own.find("of_collection", collection.key, limit=limit, cursor=cursor)

    async def each_of(self, collection: StoredCollection) -> AsyncIterator[StoredDocument]:
        """The collection's documents, but for those that go."""
        async for each in self._at(Place.of(collection)).documents.each("of_collection", collection.key):
            if each.value.state != "removing":
                yield each

    async def sizes(self, collection: StoredCollection) -> list[int]:
        """The bytes of text of each document, as far as they are known; else those of its file."""
        values = [each.value async for each in self.each_of(collection)]
        return [value.embedded_bytes or value.size for value in values if value.state != "failed"]

    async def are_embedded_by(self, collection: StoredCollection, embedder: str) -> bool:
        """Whether this model has embedded any of the collection's documents as they are found."""
        own = self._at(Place.of(collection)).documents
        return bool((await own.find("of_embedder", collection.key, embedder, limit=1)).records)

    async def in_state(self, state: DocumentState) -> AsyncIterator[StoredDocument]:
        """All people's documents in this state, for nobody to see."""
        for kinds in (OF_USERS, OF_SESSIONS):
            everybodys = self._application.records_of(kinds.documents).of_all(None)
            async for each in everybodys.each("by_state", state):
                yield each

    async def read_again(self, document: StoredDocument) -> StoredDocument:
        """Let it be read in another edition, of the same content; until then it is found as it is."""
        return await self.change(document, state="waiting", next_edition=document.value.next_edition + 1)

    async def change(self, document: StoredDocument, **values: object) -> StoredDocument:
        """Change these fields. Raises RecordConflict if it is no longer as it was read."""
        changed = SourceFile.model_validate({**document.value.model_dump(), **values})
        return await self._at(Place.of(document)).documents.change(document, changed)

    async def remove(self, document: StoredDocument) -> None:
        """From now on nobody finds it; the ingestion removes what it has."""
        found: StoredDocument | None = document
        for _ in range(_TRIES):
            if found is None or found.value.state == "removing":
                return
            try:
                await self.change(found, state="removing")
                return
            except RecordConflict:
                found = await self.get(Place.of(found), found.key)
        raise RecordConflict("Others are changing this document.")

    async def _take_back(self, receiving: StoredDocument) -> None:
        """Undo a put that has failed, but not what others have made of the document meanwhile."""
        try:
            await self.give_up(receiving)
        except RecordConflict:
            await self.remove_edition(receiving, receiving.value.next_edition)

    async def give_up(self, document: StoredDocument) -> None:
        """What is to become of one whose content has not come whole: it is as it was before. Raises RecordConflict."""
        if document.value.edition == 0:
            # Not what somebody else puts in its place at the moment.
            await self.change(document, state="removing")
        else:
            # Without what it would have been known by, so that the same content is taken when it comes again.
            await self.sweep(await self.change(document, state="ready", sha256=""))

    async def forget(self, document: StoredDocument) -> None:
        """Remove one of which nothing else is stored any more."""
        await self._at(Place.of(document)).documents.remove(document)

    async def content(self, document: StoredDocument) -> bytes:
        """The file. Raises AttachmentNotFound if it was an attachment and is gone."""
        value = document.value
        if value.attachment is not None:
            return await self._application.read_attachment(owner_of(document), value.attachment)
        return await _whole(self._at(Place.of(document)).contents, document.key, value.content_edition)

    async def text(self, document: StoredDocument) -> str:
        """What was read of it."""
        return (await _whole(self._at(Place.of(document)).texts, document.key, document.value.edition)).decode()

    async def keep_text(self, document: StoredDocument, edition: int, text: str) -> None:
        """Store what was read of it. What is there already stays: the same file is read as the same text."""
        texts = self._at(Place.of(document)).texts
        await self._write_pieces(texts, document.key, edition, text.encode(errors="replace"))

    async def sweep(self, document: StoredDocument) -> None:
        """Remove what is stored of other editions than its own, but not of later ones; all of it, if it is to go."""
        shelf, value = self._at(Place.of(document)), document.value
        is_going, latest = value.state == "removing", value.next_edition
        await self._remove_others(shelf.chunks, document.key, 0 if is_going else value.edition, latest)
        await self._remove_others(shelf.texts, document.key, 0 if is_going else value.edition, latest)
        await self._remove_others(shelf.contents, document.key, 0 if is_going else value.content_edition, latest)

    async def remove_edition(self, document: StoredDocument, edition: int) -> None:
        """Remove what is stored of an edition that is to be none of the document's, but not what it is read from."""
        shelf = self._at(Place.of(document))
        await self._remove_all(shelf.chunks, document.key, edition)
        await self._remove_all(shelf.texts, document.key, edition)
        if edition != document.value.content_edition:
            await self._remove_all(shelf.contents, document.key, edition)

    async def _remove_all(self, records: OwnRecords[Part], key: str, edition: int) -> None:
        while (page := await records.find("of", key, edition, limit=_REMOVED_AT_ONCE)).records:
            # What another instance removes at the same time is not found again.
            with suppress(RecordConflict):
                await self._application.write(self._removals(records, page.records))

    async def _remove_others(self, records: OwnRecords[Part], key: str, edition: int, latest: int) -> None:
        """Somebody may be writing a later one at the moment."""
        cursor: str | None = None
        while True:
            page = await records.find("of", key, below=latest + 1, limit=_REMOVED_AT_ONCE, cursor=cursor)
            gone = [each for each in page.records if each.value.edition != edition]
            await self._application.write(self._removals(records, gone))
            if (cursor := page.next_cursor) is None:
                return

    def _removals(self, records: OwnRecords[Part], gone: Sequence[Stored[Part]]) -> list[RecordWrite]:
        return [
            *(records.removing(each) for each in gone),
            *self._external.leaving({each.key: each.value for each in gone}),
        ]

    async def _write_pieces(
        self, records: OwnRecords[Piece], key: str, edition: int, content: BinaryIO | bytes
    ) -> None:
        there = await records.find("of", key, edition, descending=True, limit=1)
        number = there.records[0].value.number + 1 if there.records else 0
        while pieces := await asyncio.to_thread(_pieces_of, content, number):
            writes: list[RecordWrite] = []
            for place, data in enumerate(pieces, start=number):
                piece = Piece(document=key, edition=edition, number=place, data=data)
                writes.append(records.adding(piece, f"{key}.{edition}.{place}"))
            await self._application.write(writes)
            number += len(pieces)

    def _at(self, place: Place) -> Shelf:
        return Shelf(self._application, place)


async def _whole(records: OwnRecords[Piece], key: str, edition: int) -> bytes:
    pieces = records.each("of", key, edition, page_size=_WRITTEN_AT_ONCE)
    return b"".join([each.value.data async for each in pieces])


def owner_of(document: StoredDocument) -> User:
    """Whose it is, as the platform asks to be told."""
    return User(document.user_id or "", document.user_id or "")


def key_of(collection_id: str, name: str) -> str:
    """The key of the document with this name in the collection."""
    return f"{collection_id}.{sha256(name.encode(errors='replace')).hexdigest()[:32]}"


async def _receiving(
    documents: OwnRecords[SourceFile], key: str, before: StoredDocument | None, new: SourceFile
) -> StoredDocument:
    """The document as its content begins to come. Raises RecordConflict if it is no longer as it was before."""
    if before is None:
        return await documents.add(new, key)
    if before.value.state == "removing":
        # Nothing of what it was is found again.
        return await documents.change(before, new)
    # It is found as it was until the new content is whole.
    kept = ("sha256", "size", "state", "next_edition", "source")
    return await documents.change(before, before.value.model_copy(update={name: getattr(new, name) for name in kept}))


def _is_of(document: StoredDocument, digest: str) -> bool:
    """Whether its content is the file with this SHA-256, and has come whole."""
    return document.value.sha256 == digest and document.value.state in _TAKEN


def _first_edition() -> int:
    """The first edition of a document: a later one than those of a document that it takes the place of, of which
    something may still be written.
    """
    return time_ns() // 1_000_000


def _measured(file: BinaryIO) -> tuple[int, str]:
    """The size and the SHA-256 of a file."""
    file.seek(0)
    size, digest = 0, sha256()
    while piece := file.read(1 << 20):
        size += len(piece)
        digest.update(piece)
    return size, digest.hexdigest()


def _pieces_of(content: BinaryIO | bytes, number: int) -> list[bytes]:
    """The next pieces, from this number on; none behind the end."""
    start, length = number * PIECE_BYTES, _WRITTEN_AT_ONCE * PIECE_BYTES
    if isinstance(content, bytes):
        data = content[start : start + length]
    else:
        content.seek(start)
        data = content.read(length)
    return [data[place : place + PIECE_BYTES] for place in range(0, len(data), PIECE_BYTES)]
