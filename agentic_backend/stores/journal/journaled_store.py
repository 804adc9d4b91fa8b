"""JournaledStore: a store that notes each deletion in the journal before it does it.

It is the one place for that: whatever deletes for a person, an admin, an application or an agent calls one of these
operations. Not noted is what is deleted again by itself, as it is too old: `delete_old`, `delete_application_records`,
`delete_hidden_usage`, the end of shares; and what goes with something that is noted: `delete_user_rows`, `hide_usage`.
Versions of agents are configuration, whose deletion is a version too.

A deletion that the store refuses is noted as undone. One whose end is not known, as the store did not answer or the
process died, is done at the next start, unless its row has been written since.
"""

import hashlib
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, cast

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.base import SessionQuery, Store
from agentic_backend.stores.journal.deletion import Deletion, Kind, new_deletion
from agentic_backend.stores.journal.journal import Journal
from agentic_backend.stores.lineage import descendants
from agentic_backend.stores.protocol.application_records import RecordWrite
from agentic_backend.stores.protocol.items import ItemBounds
from agentic_backend.stores.protocol.trail import FeedbackRecord, ShareRecord, TrailRecord
from agentic_backend.stores.records import ItemRecord, SessionRecord, UserDeletion

log = logging.getLogger(__name__)

OF_TRAIL: dict[type[Any], Kind] = {FeedbackRecord: "feedback", ShareRecord: "shares"}
"""The kinds of what people take back of the trail."""


def journaled(store: Store, journal: Journal) -> Store:
    """The store with its deletions noted in `journal`; it closes both."""
    return cast(Store, JournaledStore(store, journal))


class JournaledStore:
    """Every other operation is the store's own."""

    def __init__(self, store: Store, journal: Journal) -> None:
        self.store = store
        self.journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def aclose(self) -> None:
        try:
            await self.store.aclose()
        finally:
            await self.journal.aclose()

    async def prove_deletion(self) -> None:
        await self.journal.prove()

    async def delete_session(self, session_id: str) -> list[str]:
        # The rows may be later than the clock, which may have been set back.
        at = self._now(each.updated_at for each in await family_from(self.store, session_id))
        async with self._noted(new_deletion("session", (session_id,), at)):
            return await self.store.delete_session(session_id)

    async def reset_state(self, session_id: str) -> SessionRecord | None:
        session = await self.store.get_session(session_id)
        if session is None:
            return None
        deletion = new_deletion("session_state", (session_id,), self._now(), within=str(session.next_rank))
        async with self._noted(deletion):
            return await self.store.reset_state(session_id)

    async def remove_attachments(self, ids: Collection[str], *, only_unsent: bool = False) -> list[str]:
        if not ids:
            return []
        deletion = new_deletion("attachments", tuple(ids), self._now(), only_unsent=only_unsent)
        async with self._noted(deletion):
            removed = await self.store.remove_attachments(ids, only_unsent=only_unsent)
        if stay := set(ids) - set(removed):
            await self._undo([deletion], stay)
        return removed

    async def write_application_records(self, writes: Sequence[RecordWrite]) -> None:
        among: dict[tuple[str, Kind], list[RecordWrite]] = {}
        for write in writes:
            if write.is_removal:
                kind: Kind = "application_records" if write.record.session_id is None else "session_application_records"
                among.setdefault((owner_in(write.record.id), kind), []).append(write)
        deletions = [
            new_deletion(
                kind,
                tuple(hidden_id(each.record.id) for each in own),
                self._now(each.record.updated_at for each in own),
                within=within,
            )
            for (within, kind), own in among.items()
        ]
        async with self._noted(*deletions):
            await self.store.write_application_records(writes)

    async def put_items(self, items: Sequence[ItemRecord], removed: Collection[str], bounds: ItemBounds) -> None:
        deletions = [new_deletion("items", tuple(removed), self._now())] if removed else []
        async with self._noted(*deletions):
            await self.store.put_items(items, removed, bounds)

    async def remove_trail(self, record: type[TrailRecord], record_id: str) -> None:
        kind = OF_TRAIL.get(record)
        deletions = [new_deletion(kind, (record_id,), self._now())] if kind is not None else []
        async with self._noted(*deletions):
            await self.store.remove_trail(record, record_id)

    async def keep_deletion(self, deletion: UserDeletion) -> None:
        if deletion.is_over:
            # That is no deletion.
            await self.store.keep_deletion(deletion)
            return
        latest = await self.store.list_sessions(SessionQuery(deletion.user_id, limit=1))
        at = max([deletion.at, *(each.updated_at for each in latest.sessions)])
        async with self._noted(new_deletion("user", (deletion.user_id,), at)):
            await self.store.keep_deletion(deletion)

    def _now(self, times: Iterable[datetime] = ()) -> datetime:
        return max([self.store.now(), *times])

    @asynccontextmanager
    async def _noted(self, *deletions: Deletion) -> AsyncIterator[None]:
        """Note the deletions, which are done inside. Raises StoreUnavailable if they can't be noted."""
        if not deletions:
            yield
            return
        await self.journal.append(deletions)
        try:
            yield
        except StoreUnavailable:
            # They may be done.
            raise
        except Exception:
            await self._undo(deletions)
            raise

    async def _undo(self, deletions: Sequence[Deletion], ids: Collection[str] | None = None) -> None:
        """Note that nothing of this, or not these ids, was deleted."""
        now = self._now(each.at for each in deletions)
        try:
            await self.journal.append(
                [
                    new_deletion("undone", tuple(each.ids if ids is None else ids), now, within=each.id)
                    for each in deletions
                ]
            )
        except StoreUnavailable:
            # The journal has logged why. What stays would go only from a restored backup, where nothing has changed it.
            pass


async def family_from(store: Store, session_id: str) -> list[SessionRecord]:
    """The session and all that descends from it; none if it isn't there."""
    session = await store.get_session(session_id)
    if session is None:
        return []
    return [session, *descendants(session_id, await store.family(session.family_id))]


def owner_in(record_id: str) -> str:
    """What the ids of all records of the same kind and owner begin with."""
    return record_id.rpartition(" ")[0] + " "


def hidden_id(record_id: str) -> str:
    return hashlib.sha256(record_id.encode()).hexdigest()
