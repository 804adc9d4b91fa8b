"""JournalUpkeep: keeps a database and its journal together.

A mark in the database says up to when the journal's deletions are done there. A running server moves it every hour, so
a database whose mark is older than that is a restored backup: then what the journal has since is done again, at the
start before anything is served, and within the hour if the database was restored beneath a running server.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.base import Store
from agentic_backend.stores.journal.journal import Journal, JournalUnavailable
from agentic_backend.stores.journal.journaled_store import JournaledStore
from agentic_backend.stores.journal.redeletion import Redeleted, Redeletion
from agentic_backend.stores.records import JournalMark

log = logging.getLogger(__name__)

_EVERY_S = 3600.0
# A deletion may be noted, and its process die, while another one moves the mark. It is done once that one is back.
_BEFORE_MARK = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a database stands in a journal: all until its `mark` is done; None if it has none of this journal.

    `others` is the last mark of other journals, None if there is none.
    """

    journal_id: str | None
    mark: datetime | None
    others: datetime | None

    @property
    def since(self) -> datetime | None:
        """From when on deletions may have to be done; None: all."""
        return None if self.mark is None else self.mark - _BEFORE_MARK


async def place_of(store: Store, journal: Journal) -> Place:
    """Raises StoreUnavailable and JournalUnavailable."""
    journal_id = await journal.journal_id()
    marks = {mark.journal_id: mark.until for mark in await store.journal_marks()}
    mark = None if journal_id is None else marks.pop(journal_id, None)
    return Place(journal_id, mark, max(marks.values(), default=None))


class JournalUpkeep:
    def __init__(
        self,
        store: JournaledStore,
        keep_days: int,
        counted_since: Callable[[], datetime | None],
        *,
        every_s: float = _EVERY_S,
    ) -> None:
        """`counted_since` says from when on budgets count what was spent (see Budgets)."""
        self._store = store.store
        self._journal = store.journal
        self._kept = timedelta(days=keep_days)
        self._counted_since = counted_since
        self._every_s = every_s
        self._marked: datetime | None = None
        """The mark that this process has last set."""

    async def catch_up(self) -> Redeleted:
        """Do what the journal has since the database's mark, and set it.

        Raises StoreUnavailable and JournalUnavailable; it can be repeated.
        """
        now, place = self._store.now(), await place_of(self._store, self._journal)
        if place.mark is None and place.others is not None:
            fields = {"path": self._journal.place, "marked_at": place.others.isoformat()}
            log.warning("deletion journal is another one", extra=fields)
        if place.journal_id is None:
            return Redeleted()
        done = await Redeletion(self._store, self._journal, self._counted_since).run(place.since)
        await self._mark(place.journal_id, now)
        if done.deleted:
            since = "" if place.mark is None else place.mark.isoformat()
            log.warning("deletions done again", extra={"since": since, **done.counts})
        return done

    async def run(self) -> None:
        """Move the mark, and forget what is too old, as long as this runs."""
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self._look()
            except (StoreUnavailable, JournalUnavailable) as error:
                log.warning("deletion journal not looked at", extra={"reason": str(error)})

    async def _look(self) -> None:
        now, place = self._store.now(), await place_of(self._store, self._journal)
        if self._marked is not None and (place.mark is None or place.mark < self._marked):
            await self.catch_up()
        elif place.journal_id is not None:
            await self._mark(place.journal_id, now)
        await self._journal.prune(now - self._kept)

    async def _mark(self, journal_id: str, at: datetime) -> None:
        await self._store.keep_journal_mark(JournalMark(journal_id=journal_id, until=at), at - self._kept)
        self._marked = at
