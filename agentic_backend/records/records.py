"""Records: the records of one application, read and written for one owner at a time."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Generic
from uuid import uuid4

from agentic_backend.auth.user import User
from agentic_backend.errors import BadFrame, Forbidden, RecordConflict
from agentic_backend.records.kinds import Kind, R, Vector
from agentic_backend.records.layout import Layout, OtherOwner
from agentic_backend.records.readable_records import (
    MOST_PER_PAGE,
    Found,
    OthersRecords,
    ReadableRecords,
    SharedRecords,
    Stored,
)
from agentic_backend.records.record_search import RecordSearch
from agentic_backend.records.search_index import IndexT, SearchQuery
from agentic_backend.records.word_index import WordQuery
from agentic_backend.records.words import sought_words
from agentic_backend.sessions.access import owned_session
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.application_records import (
    RECORDS_PER_WRITE,
    ApplicationRecord,
    RecordWrite,
)

MOST_WITHIN = 100


class OwnRecords(ReadableRecords[R]):
    """The records of one owner: a user, a session of a user's, or the application."""

    def __init__(
        self,
        store: Store,
        layout: Layout[R],
        search: RecordSearch,
        owner: str,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> None:
        super().__init__(store, layout, owner)
        self._search = search
        self._owned_by = owner
        self._user_id = user_id
        self._session_id = session_id

    async def get(self, key: str) -> Stored[R] | None:
        """The record with this key; None if there is none. Raises as `find` does."""
        await self._prepare(None)
        ids = [self._layout.id_of(self._owned_by, key)]
        rows = await self._store.get_application_records(ids, of_session=self._layout.of_session)
        return self._stored(rows[0]) if rows and rows[0].user_id == self._user_id else None

    async def get_several(self, keys: Sequence[str]) -> Mapping[str, Stored[R]]:
        """Those of at most 200 records that are there, by their keys, in one read. Raises as `find` does."""
        if len(keys) > MOST_PER_PAGE:
            raise BadFrame(f"{len(keys)} records are read at once, {MOST_PER_PAGE} may be")
        await self._prepare(None)
        ids = list({self._layout.id_of(self._owned_by, key) for key in keys})
        rows = await self._store.get_application_records(ids, of_session=self._layout.of_session) if ids else []
        return {row.key: self._stored(row) for row in rows if row.user_id == self._user_id}

    async def search(
        self, query: str, *, within: Sequence[object] | None = None, limit: int = 10, since: float | None = None
    ) -> Sequence[Found[R]]:
        """The at most `limit` records, up to 200, that have the query's words and fit them best, the best first.

        They are ranked by BM25, and those with the same score by key. `within` are up to 100 values of the field that
        says what is searched together, if the kind's words have one. What was written after `since`, a time by
        `time.monotonic()`, may be missed: several searches for one question, which are given when it began, look at the
        database for changes once. Raises BadFrame if one of these is no value of the
        field or there are more, StoreUnavailable, SessionNotFound, and NewerRecord.
        """
        words = self._layout.kind.words
        if words is None:
            raise ValueError(f"the kind {self._layout.id} declares no words")
        if type(query) is not str:
            raise TypeError("the query has to be a text")
        sought = sought_words(query)
        return await self._found(WordQuery(sought) if sought else None, words.within, within, limit, since)

    async def nearest(
        self, vector: Vector, *, within: Sequence[object] | None = None, limit: int = 10
    ) -> Sequence[Found[R]]:
        """The at most `limit` records, up to 200, whose vectors are nearest to this one, the nearest first.

        Their scores are the cosines, from -1 to 1; those with the same come by key. Vectors with another number of
        dimensions are not found. `within` is as for `search`, and so are the errors; raises ValueError and TypeError if
        it is no Vector.
        """
        vectors = self._layout.kind.vectors
        if vectors is None:
            raise ValueError(f"the kind {self._layout.id} declares no vectors")
        # It needs what is installed for those alone who use it.
        from agentic_backend.records.vector_index import VectorQuery
        from agentic_backend.records.vectors import packed

        return await self._found(VectorQuery(packed(vector)), vectors.within, within, limit)

    async def add(self, value: R, key: str | None = None, *, vector: Vector | None = None) -> Stored[R]:
        """Store a new record, under a key of its own if none is given. Raises as `adding` and `Records.write` do."""
        return await self._write(self.adding(value, key, vector=vector))

    async def change(self, stored: Stored[R], value: R, *, vector: Vector | None = None) -> Stored[R]:
        """Replace the record, which must still be as it was read. Raises as `changing` and `Records.write` do."""
        return await self._write(self.changing(stored, value, vector=vector))

    async def remove(self, stored: Stored[R]) -> None:
        """Remove the record, which must still be as it was read. Raises as `Records.write` does."""
        await self._store.write_application_records([self.removing(stored)])

    def adding(self, value: R, key: str | None = None, *, vector: Vector | None = None) -> RecordWrite:
        """The write that `add` does. Raises BadFrame; ValueError and TypeError if the vector is none."""
        key = uuid4().hex if key is None else key
        packed = self._layout.packed(vector)
        row = self._layout.new_row(value, key, self._user_id, self._session_id, self._store.now(), packed)
        return RecordWrite(row, most=self._layout.kind.most, among=self._layout.beginning(self._owned_by))

    def changing(self, stored: Stored[R], value: R, *, vector: Vector | None = None) -> RecordWrite:
        """The write that `change` does. Raises as `adding` does.

        Without a vector the record keeps the one that it has, if that is also of the new value (see Vectors).
        """
        before, packed = self._own(stored), self._layout.packed(vector)
        at = max(self._store.now(), before.updated_at)
        keeps = packed is None and self._layout.keeps_vector(before, value)
        return RecordWrite(self._layout.changed_row(before, value, at, at, packed), keeps_vector=keeps)

    def removing(self, stored: Stored[R]) -> RecordWrite:
        """The write that `remove` does."""
        return RecordWrite(self._own(stored), is_removal=True)

    async def _found(
        self,
        query: SearchQuery[IndexT] | None,
        field: str | None,
        within: Sequence[object] | None,
        limit: int,
        since: float | None = None,
    ) -> Sequence[Found[R]]:
        """What the query finds `within` values of the field that parts the records; None finds nothing."""
        if (field is None) != (within is None) or isinstance(within, str):
            raise ValueError(f"a search of {self._layout.id} is within values of {field!r}")
        if type(limit) is not int:
            raise TypeError("the limit has to be a whole number")
        values = [None] if within is None else within
        if len(values) > MOST_WITHIN:
            raise BadFrame(f"{len(values)} values are searched within, {MOST_WITHIN} may be")
        beginnings = {self._layout.searched_together(self._owned_by, value) for value in values}
        await self._prepare(None)
        if query is None:
            return []
        found = await self._search.find(
            beginnings,
            lambda key: self._layout.id_of(self._owned_by, key),
            query,
            max(1, min(limit, MOST_PER_PAGE)),
            of_session=self._layout.of_session,
            since=since,
        )
        return [Found(self._stored(row), score) for row, score in found]

    async def _write(self, write: RecordWrite) -> Stored[R]:
        await self._store.write_application_records([write])
        return self._stored(write.record)

    def _own(self, stored: Stored[R]) -> ApplicationRecord:
        if self._layout.kind.append_only:
            raise ValueError(f"records of kind {self._layout.id} are only added")
        is_own = (stored.row.user_id, stored.row.session_id) == (self._user_id, self._session_id)
        if not is_own or stored.row.id != self._layout.id_of(self._owned_by, stored.row.key):
            raise ValueError("the record is another owner's")
        return stored.row

    async def _prepare(self, index: str | None) -> None:
        if index is not None and self._layout.kind.indexes[index].all_owners:
            raise ValueError(f"the index {index!r} is of all owners")
        if self._session_id is not None:
            await owned_session(self._store, self._user_id or "", self._session_id)


class RecordsOfKind(Generic[R]):
    """The records of a kind, of all owners; `Application.records_of` makes it."""

    def __init__(self, store: Store, layout: Layout[R], search: RecordSearch) -> None:
        self._store = store
        self._layout = layout
        self._search = search

    def of_user(self, user_id: str) -> OwnRecords[R]:
        """The user's."""
        self._require("user", user_id)
        return OwnRecords(self._store, self._layout, self._search, user_id, user_id)

    def of_session(self, user_id: str, session_id: str) -> OwnRecords[R]:
        """The session's, which must be the user's: what it does raises SessionNotFound otherwise."""
        self._require("session", user_id, session_id)
        return OwnRecords(self._store, self._layout, self._search, session_id, user_id, session_id)

    def of_application(self) -> OwnRecords[R]:
        """Those that are nobody's."""
        self._require("application")
        return OwnRecords(self._store, self._layout, self._search, "")

    def of_group(self, user: User, group: str) -> SharedRecords[R]:
        """Those that their owners share with this group. Raises Forbidden if the user is none of its members."""
        if self._layout.kind.group is None:
            raise ValueError(f"the kind {self._layout.id} declares no group")
        if group not in user.groups:
            raise Forbidden("You are no member of this group.")
        return SharedRecords(self._store, self._layout, group)

    def of_all(self, reader_id: str | None) -> OthersRecords[R]:
        """Those of all owners, for this user to read: each page is noted among the reads that admins see.

        None: for nobody to see, such as in a chore; that is not noted.
        """
        return OthersRecords(self._store, self._layout, reader_id)

    def _require(self, owner: str, *ids: str) -> None:
        if not all(type(each) is str for each in ids):
            raise TypeError("the id of an owner has to be a text")
        if self._layout.kind.owner != owner:
            raise ValueError(f"the owner of a {self._layout.id} is {self._layout.kind.owner!r}")


class Records:
    """The records of one application."""

    def __init__(self, store: Store, layouts: Sequence[Layout[Any]], search: RecordSearch | None = None) -> None:
        """The `search` may be that of several applications, on this store."""
        self._store = store
        self._search = RecordSearch(store) if search is None else search
        # By name: a reload imports modules of authors anew, and the application goes on.
        self._layouts: Mapping[str, Layout[Any]] = {layout.kind.name: layout for layout in layouts}

    def of(self, kind: Kind[R]) -> RecordsOfKind[R]:
        """Raises LookupError if the application does not declare the kind."""
        layout = self._layouts.get(kind.name)
        if layout is None:
            raise LookupError(f"the application's 'records' do not have the kind {kind.name!r}")
        return RecordsOfKind(self._store, layout, self._search)

    async def write(self, writes: Sequence[RecordWrite]) -> None:
        """Do all of at most 100 writes, each of another record, or none of them.

        One that changes a record leaves its unique values. Raises RecordConflict if a record is not as it was read, or
        there already, or another one has its unique value; LimitReached if its owner would have too many;
        SessionNotFound, BadFrame, and StoreUnavailable, after which they may be written, all of them.
        """
        if len(writes) > RECORDS_PER_WRITE:
            raise BadFrame(f"{len(writes)} records are written at once, {RECORDS_PER_WRITE} may be")
        places = {(write.record.session_id is None, write.record.id) for write in writes}
        if len(places) < len(writes):
            raise RecordConflict("Two writes are of the same record.")
        if writes:
            await self._store.write_application_records(writes)


def rewritten(layout: Layout[Any], row: ApplicationRecord, now: datetime) -> RecordWrite:
    """The write that brings a row to the kind's version and layout.

    Raises OtherOwner, and what `Layout.value_of` and `Layout.changed_row` raise.
    """
    if not layout.of_session and (row.user_id is None) != (layout.kind.owner == "application"):
        raise OtherOwner(layout.id)
    changed = layout.changed_row(row, layout.value_of(row), row.updated_at, now)
    return RecordWrite(changed, keeps_vector=layout.has_vector(row))
