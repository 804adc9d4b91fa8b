"""Redeletion: does again what the journal says, on a database that may be a restored backup.

A row goes only if it was last written before its deletion. Each row of a restored backup was; what people have made
since stays, also where they have come back under the same id, or made a record with the same key. So it changes nothing
on a database that is not restored, and may be done again after it was broken off.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from agentic_backend.errors import RecordConflict, SessionBusy, SessionNotFound, StoreUnavailable
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.base import ExchangeEnd, FencedOut, Store
from agentic_backend.stores.journal.deletion import Deletion, Kind
from agentic_backend.stores.journal.journal import Journal
from agentic_backend.stores.journal.journaled_store import OF_TRAIL, family_from, hidden_id
from agentic_backend.stores.protocol.application_records import (
    RECORDS_PER_WRITE,
    ApplicationRecord,
    RecordQuery,
    RecordWrite,
    behind,
)
from agentic_backend.stores.protocol.items import ItemBounds
from agentic_backend.stores.protocol.trail import TrailQuery
from agentic_backend.stores.protocol.user_rows import hidden_name
from agentic_backend.stores.records import AttachmentState, UserDeletion
from agentic_backend.stores.tables import ATTACHMENTS, SESSIONS, TABLES, written_at

log = logging.getLogger(__name__)

_PAGE, _ROWS = 100, 500
Kept = Literal["sessions", "states", "attachments", "records", "items", "feedback", "shares", "user_rows"]
_TRAIL = {kind: record for record, kind in OF_TRAIL.items()}


@dataclass(slots=True)
class Redeleted:
    """How many deletions were looked at, and what was deleted again, by kind."""

    looked_at: int = 0
    deleted: Counter[Kept] = field(default_factory=Counter)

    @property
    def counts(self) -> dict[str, int]:
        """Without what there was none of."""
        return {kind: count for kind, count in sorted(self.deleted.items()) if count}


@dataclass(slots=True)
class _Undone:
    ids: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """What stays, by the id of the deletion."""

    def left_of(self, deletion: Deletion) -> tuple[str, ...]:
        stays = self.ids.get(deletion.id, ())
        return tuple(each for each in deletion.ids if each not in stays)


class Redeletion:
    def __init__(
        self, store: Store, journal: Journal, counted_since: Callable[[], datetime | None], *, dry_run: bool = False
    ) -> None:
        """`store` is the one that notes nothing; `counted_since` says from when on budgets count (see Budgets).

        With `dry_run` nothing is changed, and what would be deleted is counted.
        """
        self._store = store
        self._journal = journal
        self._counted_since = counted_since
        self._is_dry = dry_run
        self._done = Redeleted()
        self._seen: set[tuple[Kept, str]] = set()
        """What a dry run has counted: it finds the same by several deletions."""
        self._unpacked: UserDeletion | None = None
        """Stored while the database's file may hold what was deleted: housekeeping packs it if this is broken off."""

    async def run(self, since: datetime | None) -> Redeleted:
        """Do all deletions from `since` on. Raises StoreUnavailable and JournalUnavailable; it can be repeated."""
        undone = _Undone()
        async for batch in self._journal.batches(since):
            for each in batch:
                if each.kind == "undone" and each.within is not None:
                    undone.ids[each.within].update(each.ids)
        async for batch in self._journal.batches(since):
            due = [each for each in batch if each.kind != "undone" and (since is None or each.at >= since)]
            self._done.looked_at += len(due)
            for kind, found in _by_kind(due):
                await self._redo(kind, found, undone)
        if self._unpacked is not None:
            await self._pack(self._unpacked)
        return self._done

    async def _will_delete(self) -> None:
        if self._unpacked is None and not self._is_dry:
            now = self._store.now()
            self._unpacked = UserDeletion(user_id=_NOBODY, at=now, until=now, is_over=True)
            await self._store.keep_deletion(self._unpacked)

    async def _pack(self, unpacked: UserDeletion) -> None:
        try:
            if self._done.counts:
                await self._store.erase()
        except StoreUnavailable:
            # Housekeeping tries once more.
            log.warning("database file not packed in time")
        else:
            await self._store.end_deletion(unpacked)

    async def _redo(self, kind: Kind, found: Sequence[Deletion], undone: _Undone) -> None:
        if kind in ("application_records", "session_application_records"):
            await self._records(found, undone, of_session=kind == "session_application_records")
            return
        for deletion in found:
            ids = undone.left_of(deletion)
            if kind == "attachments":
                await self._attachments(ids, only_unsent=deletion.only_unsent)
            elif kind == "items":
                await self._items(ids, deletion.at)
            else:
                for each in ids:
                    await self._redo_one(kind, each, deletion)

    async def _redo_one(self, kind: Kind, id_: str, deletion: Deletion) -> None:
        if kind == "user":
            await self._user(id_, deletion.at)
        elif kind == "session":
            await self._session(id_, deletion.at)
        elif kind == "session_state":
            await self._state(id_, deletion.within or "")
        elif kind == "feedback" or kind == "shares":
            await self._trail(kind, id_, deletion.at)

    async def _count(self, kind: Kept, ids: Sequence[str]) -> None:
        """Called before these are deleted."""
        if ids:
            await self._will_delete()
        new = {(kind, each) for each in ids} - self._seen
        self._done.deleted[kind] += len(new)
        if self._is_dry:
            self._seen |= new

    async def _session(self, session_id: str, at: datetime) -> None:
        family = await family_from(self._store, session_id)
        if any(each.updated_at > at for each in family):
            # Its deletion has failed, and somebody has gone on in it.
            return
        # They are named by no other row, so they go first, or alone.
        await self._attachments_of(at, session_id=session_id)
        if family:
            await self._count("sessions", [each.id for each in family])
            if not self._is_dry:
                await self._store.delete_session(session_id)

    async def _state(self, session_id: str, rank: str) -> None:
        session = await self._store.get_session(session_id)
        # Not by the time, which an end changes here.
        if session is None or not rank.isdecimal() or session.next_rank > int(rank):
            return
        if session.reset_rank != session.next_rank:
            await self._count("states", [session_id])
        if self._is_dry:
            return
        try:
            await self._store.reset_state(session_id)
        except SessionBusy:
            # What ran or waited in the backup had ended before.
            await self._end(session_id, session.active_exchange_id)
            await self._store.reset_state(session_id)

    async def _end(self, session_id: str, exchange_id: str | None) -> None:
        exchange = None if exchange_id is None else await self._store.get_exchange(exchange_id)
        fence = await self._store.fence(session_id)
        if exchange is not None and fence is not None:
            end = ExchangeEnd(status=ExchangeStatus.STOPPED, usage=exchange.usage, last_seq=exchange.last_seq)
            with suppress(FencedOut):
                await self._store.append(fence, [], end)

    async def _attachments(self, ids: Collection[str], *, only_unsent: bool) -> None:
        if not ids:
            return
        there = [each for each in await self._store.get_attachments(ids) if not (only_unsent and each.session_id)]
        await self._count("attachments", [each.id for each in there])
        if self._is_dry:
            return
        await self._store.remove_attachments(ids, only_unsent=only_unsent)
        stay = {each.id for each in await self._store.get_attachments(ids)}
        # A backup of the contents may be later than that of the rows.
        await self._store.forget_contents([each for each in ids if each not in stay])

    async def _attachments_of(self, at: datetime, **whose: Any) -> None:
        after: str | None = None
        while page := await self._store.page(ATTACHMENTS, after, _PAGE, **whose):
            old = [each for each in page if each.created_at <= at]
            await self._count("attachments", [each.id for each in old if each.state is AttachmentState.KEPT])
            if old and not self._is_dry:
                await self._store.remove_attachments([each.id for each in old])
            after = page[-1].id

    async def _items(self, ids: Collection[str], at: datetime) -> None:
        old = [each.id for each in await self._store.get_items(ids) if each.updated_at <= at]
        await self._count("items", old)
        if old and not self._is_dry:
            await self._store.put_items([], old, ItemBounds())

    async def _trail(self, kind: Literal["feedback", "shares"], record_id: str, at: datetime) -> None:
        record = _TRAIL[kind]
        page = await self._store.trail(TrailQuery(record, {"id": record_id}, limit=1))
        if any(each.at <= at for each in page.records):
            await self._count(kind, [record_id])
            if not self._is_dry:
                await self._store.remove_trail(record, record_id)

    async def _records(self, found: Sequence[Deletion], undone: _Undone, *, of_session: bool) -> None:
        """All of an owner's at once: their ids are found by reading those of the owner."""
        last: dict[str, dict[str, datetime]] = defaultdict(dict)
        for deletion in found:
            if deletion.within is not None:
                own = last[deletion.within]
                for hidden in undone.left_of(deletion):
                    own[hidden] = max(deletion.at, own.get(hidden, deletion.at))
        for within, own in last.items():
            await self._records_within(within, own, of_session=of_session)

    async def _records_within(self, within: str, last: Mapping[str, datetime], *, of_session: bool) -> None:
        after: str | None = None
        while True:
            query = RecordQuery("id", within, behind(within), of_session=of_session, after=after, limit=_ROWS)
            rows = await self._store.find_application_records(query)
            old = [each for each in rows if each.updated_at <= last.get(hidden_id(each.id), _NEVER)]
            await self._count("records", [each.id for each in old])
            for start in range(0, 0 if self._is_dry else len(old), RECORDS_PER_WRITE):
                await self._remove(old[start : start + RECORDS_PER_WRITE])
            if len(rows) < _ROWS:
                return
            after = rows[-1].id

    async def _remove(self, rows: Sequence[ApplicationRecord]) -> None:
        for row in rows:
            # Somebody else has just removed it or its session, or changed it.
            with suppress(RecordConflict, SessionNotFound):
                await self._store.write_application_records([RecordWrite(row, is_removal=True)])

    async def _user(self, user_id: str, at: datetime) -> None:
        after: str | None = None
        while page := await self._store.page(SESSIONS, after, _PAGE, user_id=user_id):
            for session in page:
                await self._session(session.id, at)
            after = page[-1].id
        await self._attachments_of(at, user_id=user_id)
        if self._is_dry:
            return
        await self._will_delete()
        rows = 0
        if (since := self._counted_since()) is not None:
            while hidden := await self._store.hide_usage(user_id, hidden_name(user_id), since, _ROWS, at):
                rows += hidden
        for table in TABLES:
            if table.user is not None and table not in (SESSIONS, ATTACHMENTS) and written_at(table) is not None:
                while gone := await self._store.delete_user_rows(table, user_id, _ROWS, at):
                    rows += gone
        self._done.deleted["user_rows"] += rows


_NOBODY = ""
"""Whose deletion leaves nothing but a file to be packed."""
_NEVER = datetime.fromisoformat("0001-01-01T00:00:00+00:00")


def _by_kind(deletions: Sequence[Deletion]) -> Iterator[tuple[Kind, Sequence[Deletion]]]:
    of_kind: dict[Kind, list[Deletion]] = {}
    for each in deletions:
        of_kind.setdefault(each.kind, []).append(each)
    # What else is deleted of a user is found while the user's rows are there.
    yield from sorted(of_kind.items(), key=lambda each: each[0] == "user")
