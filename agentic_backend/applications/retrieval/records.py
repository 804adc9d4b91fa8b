"""What is stored of collections and their documents.

A document is read in editions: what it has of an edition that is not its own, as one that is written at the moment or
left over, is never found. So a new edition is there whole at once, and so does what is removed go.
"""

from importlib.util import find_spec
from typing import Any, Literal, NamedTuple, TypeVar

from agentic_backend.application import Index, Kind, Record, Vectors, Words

R = TypeVar("R", bound=Record)
DocumentState = Literal["receiving", "waiting", "replacing", "ready", "failed", "removing"]


class Collection(Record):
    """Documents that are searched together: a person's, or the files of a conversation."""

    id: str
    """Its key too; here, so that members of a group find it."""
    title: str
    shared_with: str | None = None
    """The group whose members may read it."""
    indexes: tuple[str, ...] = ()
    """What its chunks are searched within: one for each embedder that has embedded any."""
    embedding: str | None = None
    """The model of the settings that embeds its documents; None is the built-in one."""
    changing: bool = False
    """Whether some of its documents may be embedded otherwise than they are to be."""
    removing: bool = False
    """Whether it goes, with all that it has; nobody finds it any more."""


class SourceFile(Record):
    """A document of a collection: a file that somebody has put there."""

    collection: str
    name: str
    """Its path within what was put there, such as `terms/flood.pdf`."""
    sha256: str
    size: int
    """In bytes."""
    state: DocumentState
    """`receiving` its content, `waiting` to be read, `replacing` an edition; `removing`: nobody finds it any more."""
    edition: int
    """What it is read in. 0: nothing of it is."""
    next_edition: int
    """What it is being read in, or will be."""
    content_edition: int = 0
    """What its content is stored in: that of the upload."""
    attachment: str | None = None
    """The attachment that it is, whose content is stored with it; None if it was put here."""
    source: str | None = None
    """The folder that it is from, which may remove it; None if it was put by hand."""
    reason: str | None = None
    """Why it could not be read, or embedded, in words for people."""
    kind: str | None = None
    """What it is, such as `pdf`."""
    language: str | None = None
    chunker: str | None = None
    embedder: str | None = None
    """What has embedded it; None if nothing has."""
    chunks: int = 0
    embedded_bytes: int = 0
    """Of the texts of its chunks."""
    characters: int = 0
    """Of its text."""
    pages: int = 0


class Piece(Record):
    """A piece of a document's content, or of its text."""

    document: str
    edition: int
    number: int
    """Its place, from 0."""
    data: bytes


class StoredChunk(Record):
    """A chunk of a document: what is searched, and cited."""

    index: str
    """What it is searched within: its collection, and what has embedded it."""
    document: str
    edition: int
    number: int
    """Its place in the document, from 0."""
    start: int
    end: int
    """`[start, end)` in characters of the document's text."""
    path: tuple[str, ...]
    """The headings that it stands below."""
    kind: str
    text: str
    """What is searched: the span's text, below what it needs to be understood alone."""
    language: str | None
    entities: str = ""
    """The keys of what it mentions, with spaces between: chunks that share one are related."""
    relations: tuple[tuple[str, str], ...] = ()
    """Of two of these entities; empty where all are related, as they are mentioned together."""
    page: int | None = None
    """Of a PDF, the page where it begins, from 1."""
    dimensions: int | None = None
    """Of its vector, if that is in a store beside the database."""


class LeftVectors(Record):
    """Vectors in a store beside the database whose chunks are gone."""

    store: str
    """Its name in the settings."""
    ids: tuple[tuple[int, str], ...]
    """The dimensions and the id of each."""
    was_removed: bool = False
    """Whether they are gone too, unless somebody was adding them at that time."""


class Attached(Record):
    """The collections that a conversation asks."""

    collections: tuple[str, ...]


class TurnPassage(Record):
    """Where the text of a passage is, which is not kept here: it may go, or be no longer the reader's to read."""

    user_id: str
    session_id: str | None
    document: str
    edition: int
    numbers: tuple[int, ...]
    """Of its chunks; none where a module has changed its text."""


class Turn(Record):
    """What was done for the last answer of a conversation, as its panel shows it."""

    exchange_id: str
    query: str
    told: str
    """As JSON: what was found in each way, the passages without their texts, and what the judge says."""
    passages: tuple[TurnPassage, ...] = ()


def _vectors() -> Vectors | None:
    # Without numpy documents are found by their words alone.
    return Vectors("text", within="index") if find_spec("numpy") is not None else None


PIECE_BYTES = 180 * 1024
_MOST_PIECES = 6_000
"""So that the documents of one person have a gigabyte."""


class Kinds(NamedTuple):
    """The kinds of records of documents, all of one owner."""

    collections: Kind[Collection]
    documents: Kind[SourceFile]
    contents: Kind[Piece]
    texts: Kind[Piece]
    chunks: Kind[StoredChunk]


def _kinds(owner: Literal["user", "session"], prefix: str, collections: Kind[Collection]) -> Kinds:
    of_document = {"of": Index("document", "edition", "number")}
    return Kinds(
        collections,
        Kind(
            f"{prefix}document",
            SourceFile,
            owner=owner,
            indexes={
                "of_collection": Index("collection"),
                "of_embedder": Index("collection", "embedder"),
                "by_state": Index("state", all_owners=True),
            },
        ),
        Kind(f"{prefix}content", Piece, owner=owner, most=_MOST_PIECES, indexes=of_document),
        Kind(f"{prefix}text", Piece, owner=owner, most=_MOST_PIECES, indexes=of_document),
        Kind(
            f"{prefix}chunk",
            StoredChunk,
            owner=owner,
            words=Words("text", "entities", within="index", language="language"),
            vectors=_vectors(),
            most=100_000,
            indexes=of_document,
        ),
    )


_SHARED = {
    "shared": Index("shared_with", "id", all_owners=True),
    "changing": Index("changing", all_owners=True),
    "removing": Index("removing", all_owners=True),
}
OF_USERS = _kinds("user", "", Kind("collection", Collection, group="shared_with", most=200, indexes=_SHARED))
OF_SESSIONS = _kinds("session", "session_", Kind("session_collection", Collection, owner="session", most=1))
ATTACHED = Kind("attached", Attached, owner="session", most=1)
TURNS = Kind("turn", Turn, owner="session", most=10)
LEFT_VECTORS = Kind("left_vectors", LeftVectors, owner="application", most=100_000)
KINDS: tuple[Kind[Any], ...] = (*OF_USERS, *OF_SESSIONS, ATTACHED, TURNS, LEFT_VECTORS)
