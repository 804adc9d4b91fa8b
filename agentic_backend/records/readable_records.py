"""The records of one owner, or of all, to be read, and the forms in which they are."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic

from agentic_backend.policy.admin_reads import AdminReads
from agentic_backend.records.kinds import R
from agentic_backend.records.layout import Layout
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.application_records import ApplicationRecord, RecordQuery

MOST_PER_PAGE = 200


@dataclass(frozen=True, slots=True)
class Stored(Generic[R]):
    """A record as it is stored, in the revision that it has been read in."""

    key: str
    value: R = field(repr=False)
    row: ApplicationRecord = field(repr=False)

    @property
    def user_id(self) -> str | None:
        """Whose it is; None if nobody's."""
        return self.row.user_id

    @property
    def session_id(self) -> str | None:
        """The session whose it is; None if it is none's."""
        return self.row.session_id

    @property
    def created_at(self) -> datetime:
        return self.row.created_at

    @property
    def updated_at(self) -> datetime:
        """The time of its last write."""
        return self.row.updated_at


@dataclass(frozen=True, slots=True)
class RecordPage(Generic[R]):
    records: Sequence[Stored[R]]
    next_cursor: str | None
    """For the next page; None behind the last."""


@dataclass(frozen=True, slots=True)
class Found(Generic[R]):
    """A record that a search has found, and its score: the higher, the better it fits. Scores of searches differ."""

    record: Stored[R]
    score: float


class ReadableRecords(Generic[R]):
    """The records of one owner, or of all, of a kind, to be read."""

    def __init__(self, store: Store, layout: Layout[R], owner: str | None) -> None:
        self._store = store
        self._layout = layout
        self._owner = owner

    async def find(
        self,
        index: str | None = None,
        *values: object,
        beginning: str | None = None,
        at_least: object = None,
        below: object = None,
        descending: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> RecordPage[R]:
        """A page of at most `limit` records, up to 200, in the order of an index, else of their keys.

        `values` are those of the index's first fields; the next field can be at least one value and below another,
        neither of them None, or a text with a `beginning`. `cursor` is another page's `next_cursor`. Raises BadFrame if
        the cursor is invalid or a value is none of an index, StoreUnavailable, and NewerRecord.
        """
        await self._prepare(index)
        place = self._layout.place_in(index, self._owner)
        first, end = place.range(values, beginning, at_least, below)
        if type(limit) is not int:
            raise TypeError("the limit has to be a whole number")
        wanted = max(1, min(limit, MOST_PER_PAGE))
        query = RecordQuery(
            place.order,
            first,
            end,
            self._layout.of_session,
            descending=descending,
            after=place.after(cursor),
            limit=wanted + 1,
        )
        rows = await self._store.find_application_records(query)
        more = place.cursor_behind(rows[wanted - 1]) if len(rows) > wanted else None
        return RecordPage([self._stored(row) for row in rows[:wanted]], more)

    async def each(
        self,
        index: str | None = None,
        *values: object,
        descending: bool = False,
        page_size: int = MOST_PER_PAGE,
    ) -> AsyncIterator[Stored[R]]:
        """All that `find` finds by these values, read a page at a time. Raises what `find` raises."""
        cursor: str | None = None
        while True:
            page = await self.find(index, *values, descending=descending, limit=page_size, cursor=cursor)
            for record in page.records:
                yield record
            if (cursor := page.next_cursor) is None:
                return

    async def _prepare(self, index: str | None) -> None:
        """Look whether the records may be found by the index. Raises SessionNotFound."""

    def _stored(self, row: ApplicationRecord) -> Stored[R]:
        return Stored(row.key, self._layout.value_of(row), row)


class OthersRecords(ReadableRecords[R]):
    """The records of all owners, read for somebody who need not be one: each page is noted before it is read."""

    def __init__(self, store: Store, layout: Layout[R], reader_id: str | None) -> None:
        super().__init__(store, layout, None)
        self._reader_id = reader_id

    async def _prepare(self, index: str | None) -> None:
        # Places in the order of keys would tell the owners.
        if index is None or not self._layout.kind.indexes[index].all_owners:
            raise ValueError("records of all owners are found by an index over all owners")
        if self._reader_id is None:
            return
        await AdminReads(self._store).note(self._reader_id, f"records {self._layout.id} {index}", None)


class SharedRecords(ReadableRecords[R]):
    """The records that their owners share with a group, to be read by its members."""

    def __init__(self, store: Store, layout: Layout[R], group: str) -> None:
        super().__init__(store, layout, None)
        self._group = group

    async def find(self, index: str | None = None, *values: object, **bounds: Any) -> RecordPage[R]:
        """As for others, by an index over all owners; its first value, the group, is given already."""
        declared = None if index is None else self._layout.kind.indexes[index]
        if declared is None or not declared.all_owners or declared.fields[0] != self._layout.kind.group:
            raise ValueError("what is shared is found by an index over all owners that begins with the group")
        return await super().find(index, self._group, *values, **bounds)
