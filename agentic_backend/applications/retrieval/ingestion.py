"""Ingestion: has the documents that wait read, and removes what is removed; beside everything else.

What it does is stored in steps, so that a server that is killed goes on. Documents of different people take turns. Of
several instances on one store, one writes each document: the others see that, and leave it.
"""

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from time import monotonic

from agentic_backend.application import (
    AgenticError,
    Application,
    Overloaded,
    RateLimited,
    RecordConflict,
    SessionNotFound,
    StoreUnavailable,
)
from agentic_backend.applications.retrieval.chunking.chunks import CHUNKER
from agentic_backend.applications.retrieval.documents import Documents, StoredDocument
from agentic_backend.applications.retrieval.embedding.chosen_embedders import ChosenEmbedders
from agentic_backend.applications.retrieval.library import Library, StoredCollection
from agentic_backend.applications.retrieval.metrics import READ, STALLED, WAITING
from agentic_backend.applications.retrieval.reading import (
    NOT_EMBEDDED,
    CollectionGone,
    DocumentReading,
    ModelChanged,
    NoModules,
    NotEmbedded,
)
from agentic_backend.applications.retrieval.records import Collection, DocumentState
from agentic_backend.applications.retrieval.shelves import Place
from agentic_backend.applications.retrieval.vector_stores.external_vectors import ExternalVectors

log = logging.getLogger(__name__)

_AGAIN_S = 5.0
_MOST_TRIES = 5
_LONGEST_UPLOAD = timedelta(hours=1)
_LEFT_FOR = timedelta(hours=1)
"""How long what could not be embedded is left before it is tried again."""
_MOST_KNOWN = 1_000
_MOST_WAITING, _MOST_OF_ONE = 100_000, 10_000
"""Of all people, and of one; what is beyond that is found again."""
_TOLD_FOR_S = 180.0
"""How long what this instance has measured holds: another one may look for work instead."""
_NOT_READ = "The document could not be read."


@dataclass(frozen=True, slots=True)
class _Job:
    place: Place
    key: str
    """Of a document, or of a collection that goes."""
    is_collection: bool = False
    removes: bool = False
    """Whether it needs no more than the store: it waits for no model."""


class _Turns:
    """What waits, of which different people's takes turns."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, OrderedDict[_Job, None]] = OrderedDict()
        """By the people whose it is."""
        self._count = 0
        self._is_work = asyncio.Event()

    def add(self, job: _Job) -> None:
        jobs = self._waiting.get(job.place.user_id, OrderedDict())
        if self._count < _MOST_WAITING and len(jobs) < _MOST_OF_ONE:
            self._waiting[job.place.user_id] = jobs
            self._count += job not in jobs
            jobs[job] = None
        self._is_work.set()

    async def next(self) -> _Job:
        """The next one, as soon as there is any."""
        while not self._waiting:
            self._is_work.clear()
            await self._is_work.wait()
        owner_id, jobs = self._waiting.popitem(last=False)
        job, _ = jobs.popitem(last=False)
        self._count -= 1
        if jobs:
            # Behind the others.
            self._waiting[owner_id] = jobs
        return job


class Ingestion:
    def __init__(
        self,
        application: Application,
        library: Library,
        documents: Documents,
        embedders: ChosenEmbedders,
        external: ExternalVectors,
        graph_model: str | None,
    ) -> None:
        """`graph_model` is the model that says what documents mention; None has noun phrases say it."""
        self._application = application
        self._library = library
        self._documents = documents
        self._reading = DocumentReading(application, library, documents, embedders, external, graph_model)
        self._embedders = embedders
        self._to_read, self._to_remove = _Turns(), _Turns()
        self._tries: dict[_Job, int] = {}
        """How often documents have failed that are tried again."""
        self._not_embedded: dict[_Job, str] = {}
        """Documents that could not be embedded, and why, in words for people."""
        self.left_to_servers: set[tuple[Place, str]] = set()
        """Documents whose texts no module can look at here; none on a server."""
        self._seen: set[tuple[DocumentState, str]] = set()
        """The documents that waited when work was last looked for."""
        self._seen_at = self._moved_at = monotonic()
        """When that was, and when something of what waited had been done."""

    def add(self, document: StoredDocument) -> None:
        """Let this document have its turn."""
        removes = document.value.state in ("replacing", "removing")
        self._add(_Job(Place.of(document), document.key, removes=removes))

    def add_removed(self, gone: StoredDocument | StoredCollection) -> None:
        """Let this document go, or this collection with all its documents, when it is its turn."""
        is_collection = isinstance(gone.value, Collection)
        self._add(_Job(Place.of(gone), gone.key, is_collection=is_collection, removes=True))

    def add_changed(self, changed: StoredCollection) -> None:
        """Let the documents of this collection be embedded anew that another model has embedded."""
        self._add(_Job(Place.of(changed), changed.key, is_collection=True))

    def _add(self, job: _Job) -> None:
        (self._to_remove if job.removes else self._to_read).add(job)

    async def find_work(self) -> None:
        """Look for what waits or goes, such as documents of a server that was killed, or whose content broke off."""
        async for gone in self._library.removed():
            self.add_removed(gone)
        async for changed in self._library.changing():
            self.add_changed(changed)
        async for each in self._documents.in_state("receiving"):
            if each.updated_at < datetime.now(UTC) - _LONGEST_UPLOAD:
                with suppress(RecordConflict, SessionNotFound):
                    await self._documents.give_up(each)
        states: tuple[DocumentState, ...] = ("waiting", "replacing", "removing")
        count, waiting = 0, set[tuple[DocumentState, str]]()
        for state in states:
            async for each in self._documents.in_state(state):
                self.add(each)
                count += 1
                if count <= _MOST_WAITING:
                    waiting.add((state, each.key))
        now = monotonic()
        if not self._seen or not self._seen <= waiting:
            self._moved_at = now
        self._seen, self._seen_at = waiting, now
        self._application.measure(WAITING, count)
        self._application.measure(STALLED, now - self._moved_at)

    async def _forget_measures(self) -> None:
        while True:
            await asyncio.sleep(_TOLD_FOR_S / 3)
            if monotonic() - self._seen_at > _TOLD_FOR_S:
                self._application.measure(WAITING, 0)
                self._application.measure(STALLED, 0)

    async def catch_up(self) -> None:
        """Look for what a server that was killed has left, and one of another version, however long that takes."""
        while True:
            try:
                await self.find_work()
                await self.find_outdated()
                return
            except AgenticError:
                # The store is away, for example.
                await asyncio.sleep(_AGAIN_S)

    async def find_outdated(self) -> None:
        """Look for documents that another chunker has cut or another model has embedded: they are read again."""
        # In this order: what replaces an edition is ready next.
        states: tuple[DocumentState, ...] = ("replacing", "ready")
        known: dict[tuple[Place, str], StoredCollection | None] = {}
        for state in states:
            async for each in self._documents.in_state(state):
                whose = Place.of(each), each.value.collection
                if whose not in known:
                    if len(known) == _MOST_KNOWN:
                        known.clear()
                    known[whose] = await self._library.at(*whose)
                if (collection := known[whose]) is not None and self._is_outdated(each, collection):
                    with suppress(RecordConflict, SessionNotFound):
                        self.add(await self._documents.read_again(each))

    def _is_outdated(self, document: StoredDocument, collection: StoredCollection) -> bool:
        # A server without an embedder leaves what others have embedded.
        embedder = self._embedders.of(collection.value)
        return document.value.chunker != CHUNKER or embedder not in (None, document.value.embedder)

    async def run(self) -> None:
        """Do what waits, until this is cancelled. What goes does so while something that hangs is read."""
        await asyncio.gather(self._run(self._to_read), self._run(self._to_remove), self._forget_measures())

    async def _run(self, turns: _Turns) -> None:
        while True:
            job = await turns.next()
            try:
                await self._do(job)
            except (RecordConflict, SessionNotFound):
                # Another instance is at it, or another content has come, which has a turn of its own; or it is gone.
                continue
            except NoModules:
                self.left_to_servers.add((job.place, job.key))
            except StoreUnavailable:
                # Nothing goes on without it.
                await asyncio.sleep(_AGAIN_S)
                self._add(job)
            except Exception as error:
                await self._settled(job, error)

    async def _do(self, job: _Job) -> None:
        if job.is_collection:
            await (self._remove_documents(job) if job.removes else self._embed_anew(job))
            return
        document = await self._documents.get(job.place, job.key)
        if document is None:
            return
        match document.value.state:
            case "waiting":
                await self._read(document, job)
            case "replacing":
                await self._reading.clean(document)
            case "removing":
                await self._documents.sweep(document)
                await self._documents.forget(document)
                await self._forget_collection(job.place, document.value.collection)

    async def _read(self, document: StoredDocument, job: _Job) -> None:
        try:
            await self._reading.read(document, self._not_embedded.get(job))
        except CollectionGone:
            await self._documents.remove(document)
            self._add(replace(job, removes=True))
            return
        except ModelChanged:
            self._add(job)
            return
        is_whole = job not in self._not_embedded
        self._application.measure(READ, outcome="ready" if is_whole else "without_vectors")
        self._tries.pop(job, None)
        self._not_embedded.pop(job, None)
        await self._look_after(job)

    async def _look_after(self, job: _Job) -> None:
        """What becomes of the collection of a document that was read: what nothing is found within is not searched."""
        document = await self._documents.get(job.place, job.key)
        collection = None if document is None else await self._library.at(job.place, document.value.collection)
        if document is None or collection is None or collection.value.removing:
            return
        if self._is_outdated(document, collection):
            # It could not be embedded, or the collection has another model since it was begun.
            await self._library.keep_changing(collection)
            return
        for index in collection.value.indexes:
            embedder = index.partition(" ")[2]
            if embedder in ("", document.value.embedder) or await self._documents.are_embedded_by(collection, embedder):
                continue
            await self._library.search_no_longer_within(collection, index)
            if await self._documents.are_embedded_by(collection, embedder):
                # By another instance, meanwhile.
                await self._library.search_within(collection, index, anew=True)

    async def _embed_anew(self, job: _Job) -> None:
        """Let those documents of a collection be read again that are embedded otherwise than they are to be."""
        collection = await self._library.at(job.place, job.key)
        if collection is None or collection.value.removing:
            return
        is_left, lately = False, datetime.now(UTC) - _LEFT_FOR
        async for each in self._documents.each_of(collection):
            if each.value.state not in ("replacing", "ready") or not self._is_outdated(each, collection):
                continue
            if each.value.reason is not None and each.updated_at > lately:
                is_left = True
                continue
            with suppress(RecordConflict):
                self.add(await self._documents.read_again(each))
        if collection.value.changing and not is_left:
            await self._library.has_changed(collection)

    async def _settled(self, job: _Job, error: Exception) -> None:
        try:
            await self._settle(job, error)
        except (RecordConflict, SessionNotFound, StoreUnavailable):
            # It is found again if it still waits.
            return
        except Exception as worse:
            # Whatever it is, others are read.
            log.error("document not read", extra={"error": type(worse).__name__})

    async def _settle(self, job: _Job, error: Exception) -> None:
        """What becomes of a document that could not be read."""
        cause = error.cause if isinstance(error, NotEmbedded) else error
        if isinstance(cause, AgenticError) and self._may_try_again(job, cause):
            # Others go on meanwhile.
            asyncio.get_running_loop().call_later(_AGAIN_S, self._add, job)
        elif isinstance(error, NotEmbedded):
            log.warning("document not embedded", extra={"code": error.cause.code})
            await self._leave(job, f"{NOT_EMBEDDED} {error.cause.content}"[:500])
        else:
            if not isinstance(cause, AgenticError):
                log.error("document not read", extra={"error": type(error).__name__})
            await self._fail(job, cause.content if isinstance(cause, AgenticError) else _NOT_READ)

    async def _leave(self, job: _Job, reason: str) -> None:
        """A document that can't be embedded now is found as it was, or else by its words; it is tried again later."""
        document = await self._documents.get(job.place, job.key)
        if document is None or document.value.state != "waiting":
            return
        value = document.value
        if 0 < value.edition >= value.content_edition:
            # What it is read again from is what is found.
            self.add(await self._documents.change(document, state="replacing", reason=reason))
            await self._look_after(job)
        else:
            self._not_embedded[job] = reason
            self._add(job)

    def _may_try_again(self, job: _Job, error: AgenticError) -> bool:
        """Whether what is needed may be there later."""
        tries = self._tries.pop(job, 0) + (not isinstance(error, RateLimited | Overloaded))
        if error.retryable and tries < _MOST_TRIES:
            self._tries[job] = tries
            return True
        return False

    async def _fail(self, job: _Job, reason: str) -> None:
        document = await self._documents.get(job.place, job.key)
        if document is not None and document.value.state == "waiting":
            # Nothing of it is found: what it said before is not what it says now.
            failed = await self._documents.change(
                document, state="failed", reason=reason[:500], edition=0, chunks=0, embedder=None
            )
            await self._documents.sweep(failed)
            self._application.measure(READ, outcome="failed")

    async def _remove_documents(self, job: _Job) -> None:
        """Let some documents of a collection that goes have their turns, and it again behind them; at last it goes."""
        collection = await self._library.at(job.place, job.key)
        if collection is None or not collection.value.removing:
            return
        page = await self._documents.of_collection(collection)
        if not page.records:
            await self._library.forget(collection)
            return
        for each in page.records:
            await self._documents.remove(each)
            self.add_removed(each)
        if any(each.value.state != "removing" for each in page.records):
            self._add(job)

    async def _forget_collection(self, place: Place, collection_id: str) -> None:
        collection = await self._library.at(place, collection_id)
        if collection is not None and collection.value.removing:
            page = await self._documents.of_collection(collection, limit=1)
            if not page.records:
                await self._library.forget(collection)
