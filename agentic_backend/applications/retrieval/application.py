"""Retrieval: the application that answers from people's documents."""

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal

from langchain.agents.middleware import AgentMiddleware

from agentic_backend.application import (
    Application,
    ApprovalRequired,
    BadFrame,
    Blocked,
    Call,
    Chore,
    Command,
    DocumentUnreadable,
    Forbidden,
    Hook,
    Kind,
    LimitReached,
    MessageTooLarge,
    NotFound,
    Panel,
    Point,
    Preview,
    RateLimited,
    RecordConflict,
    SessionNotFound,
    Upload,
    User,
    Worker,
    WorkerEmbedder,
)
from agentic_backend.applications.retrieval.answering.answering import LOOKING_S, AnswersFromDocuments, DocumentTuning
from agentic_backend.applications.retrieval.answering.turns import Turns
from agentic_backend.applications.retrieval.documents import Documents, StoredDocument
from agentic_backend.applications.retrieval.embedding import embedder
from agentic_backend.applications.retrieval.embedding.chosen_embedders import ChosenEmbedders
from agentic_backend.applications.retrieval.ingestion import Ingestion
from agentic_backend.applications.retrieval.intake.folder_commands import FolderCommands
from agentic_backend.applications.retrieval.intake.intake import Intake
from agentic_backend.applications.retrieval.library import OF_CONVERSATION, Library, StoredCollection
from agentic_backend.applications.retrieval.metrics import METRICS
from agentic_backend.applications.retrieval.records import ATTACHED, KINDS, Attached
from agentic_backend.applications.retrieval.runs.door import RunsDoor
from agentic_backend.applications.retrieval.runs.profiles import RunSettings
from agentic_backend.applications.retrieval.runs.records import RUN_KINDS
from agentic_backend.applications.retrieval.searching.retriever import Retriever
from agentic_backend.applications.retrieval.shelves import Place
from agentic_backend.applications.retrieval.vector_stores.external_vectors import ExternalVectors
from agentic_backend.applications.retrieval.vector_stores.vector_store import VectorStoreSettings
from agentic_backend.applications.retrieval.views import (
    AttachedCollections,
    ChangedCollection,
    CitedPassage,
    Collections,
    CollectionView,
    DocumentPage,
    DocumentText,
    DocumentView,
    LeftOut,
    Named,
    NewCollection,
    OfSession,
    Page,
    PageImage,
    Passages,
    PassageView,
    PutDocuments,
    Sought,
    Span,
    SpanPlace,
    SpanPlaces,
    TurnView,
    collection_view,
    document_view,
)

_EMBEDDER = "embedder"
_LONGEST_PREVIEW = 20_000
"""In characters."""
_PAGE = re.compile(r"[1-9][0-9]{0,5}")


class Retrieval(Application):
    """Collections of documents, and answers from them."""

    id = "retrieval"
    title = "Documents"
    version = "0.1.0"
    Tuning = DocumentTuning
    catalog = "agents_catalog.yaml"
    records: ClassVar[Sequence[Kind[Any]]] = (*KINDS, *RUN_KINDS)
    metrics = METRICS
    panels: ClassVar[Sequence[Panel]] = (
        Panel("documents", "Documents", "documents.html", may=frozenset({"follow"}), preview="preview_passage"),
    )

    class Settings(RunSettings):
        embeddings: bool = True
        """Whether documents are embedded, by a model beside the server, if what it needs is installed."""
        graph: bool = True
        """Whether documents are searched by what they mention, too. It is stored of them in any case."""
        graph_model: str | None = None
        """A model of the settings that says which entities documents mention, and how these are related; null: noun
        phrases do."""
        vector_store: VectorStoreSettings | None = None
        """A store beside the database, which has the vectors of people's collections; null: the database has them."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        declared = self.embedder()
        model = None if declared is None else declared.model
        store = self.settings.vector_store
        self.library = Library(self)
        self.external = ExternalVectors(self, store)
        self.documents = Documents(self, self.external)
        self.embedders = ChosenEmbedders(self, model, None if store is None else store.name)
        self.retriever = Retriever(
            self, self.library, self.documents, self.embedders, self.external, self.settings.graph
        )
        self.ingestion = Ingestion(
            self, self.library, self.documents, self.embedders, self.external, self.settings.graph_model
        )
        self.intake = Intake(self.documents, self.ingestion)
        self.folders = FolderCommands(self)
        self.turns = Turns(self, self.library, self.documents)
        self._answers = AnswersFromDocuments(self)
        self._runs = RunsDoor(self, settings)
        self._ingesting: list[asyncio.Task[None]] = []

    def workers(self) -> Sequence[Worker]:
        return [Worker(_EMBEDDER, embedder.CLASS_PATH, memory_mb=embedder.MEMORY_MB)] if self._embeds else []

    def embedder(self) -> WorkerEmbedder | None:
        if not self._embeds:
            return None
        return WorkerEmbedder(
            embedder.MODEL,
            _EMBEDDER,
            batch_texts=embedder.BATCH_TEXTS,
            batch_characters=embedder.BATCH_CHARACTERS,
            timeout_s=embedder.TIMEOUT_S,
        )

    @property
    def _embeds(self) -> bool:
        return bool(self.settings.embeddings) and embedder.missing() is None

    def middleware(self) -> Sequence[AgentMiddleware[Any, Any, Any]]:
        return [self._answers]

    def hooks(self) -> Sequence[Hook]:
        return [Hook(Point.AFTER_AI, self._answers.look_at, agents="tuned", timeout_s=LOOKING_S)]

    def chores(self) -> Sequence[Chore]:
        removing = [Chore(self.remove_vectors, every_s=60, timeout_s=50)]
        return [Chore(self.find_work, every_s=60), *(removing if self.settings.vector_store is not None else ())]

    def commands(self) -> Sequence[Command]:
        return [Command(self.folders.ingest), Command(self.folders.watch)]

    def calls(self) -> Sequence[Call]:
        one = "/collections/{collection}"
        return [
            Call(
                "POST",
                "/collections",
                self.add_collection,
                status=201,
                errors=[Forbidden, LimitReached, ApprovalRequired],
            ),
            Call("GET", "/collections", self.list_collections),
            Call("PUT", one, self.change_collection, errors=[NotFound, Forbidden, RecordConflict, ApprovalRequired]),
            Call("DELETE", one, self.remove_collection, errors=[NotFound, RecordConflict]),
            Call(
                "POST",
                f"{one}/documents",
                self.put_document,
                status=202,
                errors=[NotFound, BadFrame, MessageTooLarge, LimitReached, RecordConflict],
                timeout_s=300,
            ),
            Call("GET", f"{one}/documents", self.list_documents, errors=[NotFound]),
            Call("GET", f"{one}/documents/{{document}}", self.get_document, errors=[NotFound]),
            Call("DELETE", f"{one}/documents/{{document}}", self.remove_document, errors=[NotFound, RecordConflict]),
            Call("GET", f"{one}/documents/{{document}}/text", self.get_text, errors=[NotFound, SessionNotFound]),
            Call(
                "GET",
                f"{one}/documents/{{document}}/places",
                self.get_places,
                errors=[NotFound, SessionNotFound, DocumentUnreadable, RateLimited],
                timeout_s=300,
            ),
            Call(
                "GET",
                f"{one}/documents/{{document}}/pages/{{page}}",
                self.get_page,
                errors=[NotFound, SessionNotFound, DocumentUnreadable, RateLimited],
                timeout_s=300,
            ),
            Call("POST", "/preview", self.preview_passage, errors=[NotFound, SessionNotFound]),
            Call("GET", f"{one}/search", self.search, errors=[NotFound, Blocked]),
            Call(
                "PUT",
                "/sessions/{session}/collections",
                self.attach,
                errors=[SessionNotFound, NotFound, RecordConflict],
            ),
            Call("GET", "/sessions/{session}/collections", self.list_attached, errors=[SessionNotFound]),
            Call("GET", "/sessions/{session}/turn", self.get_turn, errors=[SessionNotFound, NotFound]),
            *(self._runs.calls() if self.settings.runs else ()),
        ]

    async def start(self) -> None:
        # Calls are served at once: to look through all documents takes its time.
        self._ingesting = [asyncio.create_task(work) for work in (self.ingestion.run(), self.ingestion.catch_up())]

    async def aclose(self) -> None:
        await self._runs.aclose()
        for task in self._ingesting:
            task.cancel()
        await asyncio.gather(*self._ingesting, return_exceptions=True)
        await self.external.aclose()

    async def forget(self, user_id: str) -> None:
        await self.external.forget(user_id)

    async def check(self) -> None:
        """Raises RuntimeError, which says what is not installed."""
        if self.settings.embeddings and (missing := embedder.missing()) is not None:
            raise RuntimeError(missing)

    async def find_work(self) -> None:
        """Find documents that no instance works on, such as those of one that was killed."""
        await self.ingestion.find_work()

    async def remove_vectors(self) -> None:
        """Remove vectors from the store beside the database whose chunks are gone."""
        await self.external.remove_left()

    async def add_collection(self, user: User, body: NewCollection) -> CollectionView:
        """Make a collection."""
        _require_member(user, body.shared_with)
        await self._require_approval(body.title, body.embedding, [])
        return collection_view(user, await self.library.add(user, body.title, body.shared_with, body.embedding))

    async def list_collections(self, user: User) -> Collections:
        """The collections that the user may read."""
        return self._collections(user, await self.library.readable(user))

    async def change_collection(self, user: User, collection: str, body: ChangedCollection) -> CollectionView:
        """Give a collection another title, share it with another group, or with none; let another model embed it.

        Until that has embedded all of its documents, they are found as they are.
        """
        own = await self.library.own(user, collection)
        if body.shared_with != own.value.shared_with:
            _require_member(user, body.shared_with)
        embedding = body.embedding if "embedding" in body.model_fields_set else own.value.embedding
        is_other = embedding != own.value.embedding
        if is_other:
            await self._require_approval(body.title, embedding, await self.documents.sizes(own))
        changed = await self.library.change(own, body.title, body.shared_with, embedding)
        if is_other:
            self.ingestion.add_changed(changed)
        return collection_view(user, changed)

    async def _require_approval(self, title: str, embedding: str | None, sizes: Sequence[int]) -> None:
        """Have the user approve of what is sent to a provider: documents of so many bytes of text, and later ones.

        Raises ApprovalRequired, and BadFrame if there is no such model.
        """
        self.embedders.require(embedding)
        if embedding is not None:
            told = (await self.embedders.estimate(embedding, sizes)).told
            asks = f"Send the documents of “{title}”, now and later, to the embedding model “{embedding}”"
            self.require_approval(asks, told)

    async def remove_collection(self, user: User, collection: str) -> None:
        """Remove a collection with all its documents: from now on nothing of them is found."""
        own = await self.library.own(user, collection)
        await self.library.remove(own)
        self.ingestion.add_removed(own)

    async def put_document(self, user: User, collection: str, upload: Upload, query: Named) -> PutDocuments:
        """Put a file into a collection, in the place of one with this name. It is read and embedded afterwards.

        Of an archive (`.zip`, `.tar`, `.tar.gz`, `.tgz`) each file becomes a document, in the place of those that came
        of the archive before.
        """
        own = await self.library.own(user, collection)
        outcomes = await self.intake.put(own, query.name or upload.name, upload.file)
        return PutDocuments(
            documents=[document_view(each.document) for each in outcomes if each.document is not None],
            left_out=[LeftOut(name=each.name, reason=each.reason) for each in outcomes if each.reason is not None],
            removed=[each.name for each in outcomes if each.is_removed],
        )

    async def list_documents(self, user: User, collection: str, query: Page) -> DocumentPage:
        """A page of a collection's documents."""
        found = await self.library.get(user, collection)
        page = await self.documents.of_collection(found, query.limit, query.cursor)
        there = [document_view(each) for each in page.records if each.value.state != "removing"]
        return DocumentPage(documents=there, next_cursor=page.next_cursor)

    async def get_document(self, user: User, collection: str, document: str) -> DocumentView:
        """A document of a collection."""
        return document_view(await self._document(await self.library.get(user, collection), document))

    async def remove_document(self, user: User, collection: str, document: str) -> None:
        """Remove a document: from now on nothing of it is found."""
        found = await self._document(await self.library.own(user, collection), document)
        await self.intake.remove(found)

    async def get_text(self, user: User, collection: str, document: str, query: Span) -> DocumentText:
        """A piece of what was read of a document, of up to 100,000 characters."""
        stored, text = await self._text(user, collection, query.session, document)
        start = min(query.start, len(text))
        end = min(max(query.end, start), start + 100_000, len(text))
        value = stored.value
        return DocumentText(
            name=value.name, edition=value.edition, text=text[start:end], start=start, end=end, characters=len(text)
        )

    async def preview_passage(self, user: User, body: CitedPassage) -> Preview:
        """What a passage says that an answer cites, as it stands in the document now, of up to 20,000 characters."""
        _, text = await self._text(user, body.collection, body.session, body.document)
        said = text[body.start : body.end].strip()
        if not said:
            raise NotFound("The passage is no longer there.")
        return Preview(text=said if len(said) <= _LONGEST_PREVIEW else f"{said[:_LONGEST_PREVIEW]}…")

    async def get_places(self, user: User, collection: str, document: str, query: Span) -> SpanPlaces:
        """Where a piece of what was read of a PDF stands on its pages."""
        found, stored = await self._readable(user, collection, query.session, document)
        if stored.value.kind != "pdf":
            return SpanPlaces(places=[])
        read = await self.read_document(stored.value.name, await self.documents.content(stored), user=user)
        text = await self.documents.text(stored)
        await self._require_readable(user, found)
        span = slice(query.start, query.end)
        # The file may be another one, which is not found yet.
        places = read.places(query.start, query.end) if read.text[span] == text[span] else []
        sizes = [(place, read.pages[place.page - 1]) for place in places]
        return SpanPlaces(
            places=[
                SpanPlace(page=place.page, width=size.width, height=size.height, boxes=list(place.boxes))
                for place, size in sizes
            ]
        )

    async def get_page(self, user: User, collection: str, document: str, page: str, query: OfSession) -> PageImage:
        """A page of a PDF, counted from 1, as people see it."""
        found, stored = await self._readable(user, collection, query.session, document)
        if stored.value.kind != "pdf" or not _PAGE.fullmatch(page):
            raise NotFound("There is no such page.")
        png = await self.draw_page(await self.documents.content(stored), int(page), user=user)
        await self._require_readable(user, found)
        return PageImage(png=b64encode(png).decode())

    async def _text(
        self, user: User, collection: str, session: str | None, document: str
    ) -> tuple[StoredDocument, str]:
        """A document and what was read of it. Raises NotFound and SessionNotFound."""
        found, stored = await self._readable(user, collection, session, document)
        text = await self.documents.text(stored)
        await self._require_readable(user, found)
        return stored, text

    async def _readable(
        self, user: User, collection: str, session: str | None, document: str
    ) -> tuple[StoredCollection, StoredDocument]:
        """Raises NotFound and SessionNotFound."""
        found = await self._collection(user, collection, session)
        return found, await self._document(found, document)

    async def _require_readable(self, user: User, found: StoredCollection) -> None:
        """So that what was read before this was theirs to read. Raises NotFound."""
        if found.key not in await self.library.may_read(user, [found]):
            raise NotFound("There is no such collection.")

    async def _collection(self, user: User, collection: str, session: str | None) -> StoredCollection:
        """A collection that the user may read; with `session` the files of this conversation of theirs."""
        if session is None or collection != OF_CONVERSATION:
            return await self.library.get(user, collection)
        return await self.library.get_of_session(user, session)

    async def search(self, user: User, collection: str, query: Sought) -> Passages:
        """The passages of a collection that fit a question best."""
        asked, q = await self.library.get(user, collection), query.q
        if any(map(self.embedders.is_elsewhere, self.retriever.embedders_of([asked]))):
            # It leaves the server.
            agent = self.settings.runs_agent
            q = (await self.review(q, user=user, agent_id=agent, point=Point.BEFORE_AI)).for_model
        found = await self.retriever.retrieve(user, q, [asked])
        passages = [
            PassageView(
                document=each.document,
                name=each.name,
                collection=each.collection,
                path=list(each.path),
                page=each.page,
                start=each.start,
                end=each.end,
                text=each.text,
                score=each.score,
                ranks=dict(each.ranks),
            )
            for each in found.passages[: query.limit]
        ]
        failed = {name: way.failed for name, way in found.ways.items() if way.failed is not None}
        return Passages(passages=passages, failed=failed)

    async def attach(self, user: User, session: str, body: AttachedCollections) -> Collections:
        """Let a conversation ask these collections, beside those of its agent, and no others that were attached."""
        for each in body.collections:
            await self.library.get(user, each)
        own = self.records_of(ATTACHED).of_session(user.id, session)
        attached = Attached(collections=tuple(dict.fromkeys(body.collections)))
        before = await own.get("attached")
        await (own.add(attached, "attached") if before is None else own.change(before, attached))
        return await self.list_attached(user, session)

    async def list_attached(self, user: User, session: str) -> Collections:
        """The collections that a conversation asks, as far as the user may read them now."""
        found = await self._attached(user, session)
        return self._collections(user, found)

    async def get_turn(self, user: User, session: str) -> TurnView:
        """What was done for the last answer of a conversation that asks documents."""
        found = await self.turns.latest(user, session)
        if found is None:
            raise NotFound("No documents were asked in this conversation.")
        turn, told = found
        return TurnView(exchange_id=turn.exchange_id, query=turn.query, told=json.dumps(told))

    async def asked_collections(
        self, user: User, session_id: str | None, named: Literal["all"] | Sequence[str]
    ) -> list[StoredCollection]:
        """Those that are asked for this user: `named` by title or id, as an entry says, and the conversation's."""
        attached = [] if session_id is None else await self._of_conversation(user, session_id)
        if not named:
            return attached
        readable = await self.library.readable(user)
        if named != "all":
            readable = [each for each in readable if {each.key, each.value.title} & set(named)]
        return list({each.key: each for each in (*readable, *attached)}.values())

    def _collections(self, user: User, found: Sequence[StoredCollection]) -> Collections:
        return Collections(
            collections=[collection_view(user, each) for each in found],
            groups=sorted(user.groups),
            embeddings=list(self.embedders.names),
        )

    async def _of_conversation(self, user: User, session_id: str) -> list[StoredCollection]:
        """The collections that are attached to a conversation, and its own files, of which new ones are read."""
        attached = await self._attached(user, session_id)
        files = await self.attachments(user, session_id)
        if not files:
            return attached
        own = await self.library.of_conversation(Place(user.id, session_id))
        for each in files:
            if (document := await self.documents.put_attachment(own, each)) is not None:
                self.ingestion.add(document)
        return [*attached, own]

    async def _attached(self, user: User, session_id: str) -> list[StoredCollection]:
        found = await self.records_of(ATTACHED).of_session(user.id, session_id).get("attached")
        attached = []
        for each in found.value.collections if found is not None else ():
            with suppress(NotFound):
                attached.append(await self.library.get(user, each))
        return attached

    async def _document(self, collection: StoredCollection, key: str) -> StoredDocument:
        found = await self.documents.get(Place.of(collection), key)
        if found is None or found.value.collection != collection.key or found.value.state == "removing":
            raise NotFound("There is no such document.")
        return found


def _require_member(user: User, group: str | None) -> None:
    if group is not None and group not in user.groups:
        raise Forbidden("A collection is shared with a group that you are in.")
