"""What the calls of the application take and answer."""

from typing import Annotated, Any, Self

from pydantic import Field, ModelWrapValidatorHandler, StringConstraints, model_validator

from agentic_backend.application import Frame, PageSize, Query, User, Value
from agentic_backend.applications.retrieval.documents import StoredDocument
from agentic_backend.applications.retrieval.library import StoredCollection

Title = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Embedding = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Group = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class NewCollection(Frame):
    """A collection to make."""

    title: Title
    shared_with: Group | None = None
    """The group whose members may read it; the user has to be one."""
    embedding: Embedding | None = None
    """The model of the settings that embeds its documents, to which they are sent; None is the built-in one."""


class ChangedCollection(Frame):
    """What a collection is from now on."""

    title: Title
    shared_with: Group | None = None
    embedding: Embedding | None = None
    """As of a new one; what it was if this is left out."""

    @model_validator(mode="wrap")
    @classmethod
    def _told_if_null(cls, raw: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        # Null is the built-in model here, and elsewhere in frames what is left out.
        changed = handler(raw)
        if isinstance(raw, dict) and "embedding" in raw:
            changed.model_fields_set.add("embedding")
        return changed


class CollectionView(Value):
    """A collection, as somebody may read it."""

    id: str
    title: str
    shared_with: str | None
    is_own: bool
    embedding: str | None


class Collections(Value):
    """The user's own collections, then those that are shared with their groups."""

    collections: list[CollectionView]
    groups: list[str]
    """Those of the user: a collection can be shared with one of them."""
    embeddings: list[str]
    """The models of the settings that a collection may have its documents embedded by."""


class DocumentView(Value):
    """A document of a collection. `reason` says why it could not be read, or embedded."""

    id: str
    name: str
    size: int
    state: str
    reason: str | None
    kind: str | None
    language: str | None
    characters: int
    pages: int
    chunks: int
    is_embedded: bool


class LeftOut(Value):
    """A file of an archive that was left out, and why."""

    name: str
    reason: str


class PutDocuments(Value):
    """What became of a file: its document, or those of an archive, and the names of documents that it has removed."""

    documents: list[DocumentView]
    left_out: list[LeftOut]
    removed: list[str]


class DocumentPage(Value):
    """Documents, and the cursor of the next page."""

    documents: list[DocumentView]
    next_cursor: str | None


class DocumentText(Value):
    """A piece of what was read of a document, in characters."""

    name: str
    edition: int
    """Another one where the document has changed, or was read anew."""
    text: str
    start: int
    end: int
    characters: int


class PassageView(Value):
    """A passage that a search has found, and why."""

    document: str
    name: str
    collection: str
    path: list[str]
    page: int | None
    start: int
    end: int
    text: str
    score: float
    ranks: dict[str, int]


class Passages(Value):
    """What a search has found, the best first; `failed` are the ways that did not work, and why."""

    passages: list[PassageView]
    failed: dict[str, str]


class SpanPlace(Value):
    """Where a span stands on a page of a PDF. Lengths are in points."""

    page: int
    """From 1."""
    width: float
    height: float
    boxes: list[tuple[float, float, float, float]]
    """Of its lines: left, top, right and bottom, from the top left corner of the page."""


class SpanPlaces(Value):
    """By page; none for a document without pages, or whose file is another one by now."""

    places: list[SpanPlace]


class PageImage(Value):
    """A page of a PDF as an image: a PNG, in Base64."""

    png: str


class OfSession(Query):
    """`session` is the conversation whose own file it is."""

    session: Id | None = None


class CitedPassage(Frame):
    """Where a passage that an answer cites stands, and why it was taken; not what it says."""

    number: int
    collection: Id
    session: Id | None = None
    """The conversation whose own files the collection is; None for any other."""
    document: Id
    edition: int
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    path: list[str] = Field(max_length=100)
    page: int | None = None
    score: float
    ranks: dict[str, int] = Field(max_length=10)


class Named(Query):
    """The name of a document within its collection, such as `terms/flood.pdf`; else that of the file."""

    name: Name | None = None


class Page(Query):
    """A page of documents."""

    limit: Annotated[int, PageSize(200)] = 50
    cursor: str | None = None


class Span(OfSession):
    """Where in a document's text, in characters; `session` is the conversation whose own file it is."""

    start: int = Field(0, ge=0)
    end: int = Field(20_000, ge=0)


class Sought(Query):
    """What is looked for."""

    q: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
    limit: int = Field(10, ge=1, le=40)


class AttachedCollections(Frame):
    """The collections that a conversation asks, by their ids."""

    collections: list[Annotated[str, StringConstraints(min_length=1, max_length=64)]] = Field(max_length=50)


class TurnView(Value):
    """What was done for the last answer of a conversation."""

    exchange_id: str
    query: str
    told: str
    """As JSON: the ways of searching, the passages, and what the judge says of each sentence."""


def collection_view(user: User, stored: StoredCollection) -> CollectionView:
    value = stored.value
    is_own = stored.user_id == user.id
    return CollectionView(
        id=value.id,
        title=value.title,
        shared_with=value.shared_with,
        is_own=is_own,
        embedding=value.embedding,
    )


def document_view(stored: StoredDocument) -> DocumentView:
    value = stored.value
    return DocumentView(
        id=stored.key,
        name=value.name,
        size=value.size,
        state="ready" if value.state == "replacing" else value.state,
        reason=value.reason,
        kind=value.kind,
        language=value.language,
        characters=value.characters,
        pages=value.pages,
        chunks=value.chunks,
        is_embedded=value.embedder is not None,
    )
