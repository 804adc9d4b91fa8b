"""Records of applications: rows whose kinds applications declare, all in the same two tables.

A record belongs to a user, to a session, or to its application alone; those of sessions have a table of their own, and
are deleted with them. `id` is its place: its kind, its owner and its key, so that ids sort by these. The values by
which it is found are texts in index columns, which sort as the values do (see index_terms). What a search reads of it
is in the same row, so that it is written, copied and deleted with the record; who reads records does not read it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, get_args

INDEXES, UNIQUE_INDEXES = 4, 2
"""The numbers of index columns that a record has: `index_1`…, and `unique_1`…"""
RECORDS_PER_WRITE = 100

Order = Literal["id", "index_1", "index_2", "index_3", "index_4", "unique_1", "unique_2"]
"""The columns by which records are found."""
Searched = Literal["words", "vector"]
SEARCHED: tuple[Searched, ...] = get_args(Searched)
"""The columns that only searches read, and copies: a record that is found is without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationRecord:
    """A record of an application.

    `kind` is the ids of the application and of the kind, joined by a colon. `user_id` is whose it is; None if nobody's.
    `revision` counts its writes, from 1. `version` is that of the kind's model when it was written, and `layout` names
    the kind's indexes then. A unique column holds the id unless the kind has such an index.
    """

    id: str
    kind: str
    key: str
    user_id: str | None
    session_id: str | None
    created_at: datetime
    updated_at: datetime
    revision: int
    version: int
    layout: str
    value: dict[str, Any] = field(repr=False)
    unique_1: str
    unique_2: str
    index_1: str | None = None
    index_2: str | None = None
    index_3: str | None = None
    index_4: str | None = None
    searched: str | None = None
    """Its place among the records that are searched together, in the order of their writes; another one after each."""
    words: str | None = field(default=None, repr=False)
    """The words of what is searched (see words), and how often each comes."""
    vector: bytes | None = field(default=None, repr=False)
    """Of which direction it is (see vectors)."""


@dataclass(frozen=True, slots=True)
class SearchedRecord:
    """What a search reads of a record: `content` is what one of the searched columns has."""

    key: str
    searched: str
    content: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class RecordWrite:
    """A write of one record: with revision 1 it is inserted, with a later one it replaces the revision before.

    That is of the same record: one that was removed and inserted again has another `created_at`.

    A removal takes away the record as it is. `most` is how many records may have an id that begins with `among`, after
    an insertion. A change that `keeps_vector` leaves the stored one.
    """

    record: ApplicationRecord
    is_removal: bool = False
    most: int = 0
    among: str = ""
    keeps_vector: bool = False

    @property
    def is_insertion(self) -> bool:
        return self.record.revision == 1 and not self.is_removal

    @property
    def expected(self) -> int:
        """The revision that the stored record must have; 0: none is there."""
        return self.record.revision if self.is_removal else self.record.revision - 1

    def changes(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """What a change sets of the record's row."""
        return {name: value for name, value in row.items() if not (self.keeps_vector and name == "vector")}


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """The records whose column `order` is from `first` on and below `behind`, in its order.

    `after` is the column's value of the previous page's last record. `of_session` says in which table.
    """

    order: Order
    first: str
    behind: str
    of_session: bool = False
    descending: bool = False
    after: str | None = None
    limit: int = 50


def behind(beginning: str) -> str:
    """The first text behind all those of the columns that begin so."""
    return beginning + "~"


class ApplicationRecordStore(Protocol):
    """The operations of a Store on records of applications."""

    async def open_application_records(self) -> None:
        """Make what the operations need, however long that takes. It can be repeated."""
        ...

    async def get_application_records(self, ids: Collection[str], *, of_session: bool) -> list[ApplicationRecord]:
        """The records with these ids, in any order; those that do not exist are left out."""
        ...

    async def find_application_records(self, query: RecordQuery) -> list[ApplicationRecord]: ...

    async def searched_places(self, after: str, behind: str, limit: int, *, of_session: bool) -> list[str]:
        """At most `limit` values of `searched` after the one and below the other, in order.

        Among them may be places of records that are just being written, and that nobody can read yet.
        """
        ...

    async def searched_records(
        self, column: Searched, places: Collection[str], *, of_session: bool
    ) -> list[SearchedRecord]:
        """What is searched of the records at these places, in any order; without those that are no longer there."""
        ...

    async def write_application_records(self, writes: Sequence[RecordWrite]) -> None:
        """Do all of at most RECORDS_PER_WRITE writes, each of another record, or none of them.

        Raises RecordConflict if a record is not as a write expects it or another one has its unique value,
        SessionNotFound if a record's session is not its user's, and LimitReached, without having written anything.
        After StoreUnavailable they may be written, all of them. Of several writes, one that replaces a record can't
        change its unique values. On a store without transactions, concurrent writes may exceed a limit a little, and
        who reads more than one record may see a part of a write that is just being done.
        """
        ...

    async def outdated_application_records(
        self, kind: str, version: int, layout: str, limit: int, *, of_session: bool
    ) -> list[ApplicationRecord]:
        """At most `limit` records of the kind whose version is older, or whose layout is another one."""
        ...

    async def delete_application_records(self, kind: str, before: datetime, limit: int, *, of_session: bool) -> int:
        """Delete at most `limit` records of the kind that were last written before; how many there were."""
        ...

    async def application_record_kinds(self) -> Mapping[str, int]:
        """The kinds of which there are records, with their newest version."""
        ...
