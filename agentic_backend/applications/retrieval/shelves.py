"""Shelves: where the records of documents are, which are a person's or a conversation's."""

from dataclasses import dataclass
from typing import Any

from agentic_backend.application import Application, Kind, OwnRecords, Stored
from agentic_backend.applications.retrieval.records import (
    OF_SESSIONS,
    OF_USERS,
    Collection,
    Piece,
    R,
    SourceFile,
    StoredChunk,
)


@dataclass(frozen=True, slots=True)
class Place:
    """Whose documents are: a person's, or those of one of their conversations, with which they go."""

    user_id: str
    session_id: str | None = None

    @classmethod
    def of(cls, stored: Stored[Any]) -> "Place":
        """That of a record."""
        return cls(stored.user_id or "", stored.session_id)


class Shelf:
    """The records of one place."""

    def __init__(self, application: Application, place: Place) -> None:
        self._application = application
        self._place = place
        self._kinds = OF_USERS if place.session_id is None else OF_SESSIONS

    @property
    def collections(self) -> OwnRecords[Collection]:
        return self._own(self._kinds.collections)

    @property
    def documents(self) -> OwnRecords[SourceFile]:
        return self._own(self._kinds.documents)

    @property
    def contents(self) -> OwnRecords[Piece]:
        return self._own(self._kinds.contents)

    @property
    def texts(self) -> OwnRecords[Piece]:
        return self._own(self._kinds.texts)

    @property
    def chunks(self) -> OwnRecords[StoredChunk]:
        return self._own(self._kinds.chunks)

    def _own(self, kind: Kind[R]) -> OwnRecords[R]:
        records, place = self._application.records_of(kind), self._place
        if place.session_id is None:
            return records.of_user(place.user_id)
        return records.of_session(place.user_id, place.session_id)
