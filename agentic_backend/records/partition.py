"""Partition: what is in memory of the records that are searched together in one way, kept as the store has them.

A look at the store reads the places of what was written since the look before, and the records at those that are new.
What was removed has no place to be found at; so now and then a look goes through all places.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Generic

from agentic_backend.records.search_index import IndexT
from agentic_backend.records.searched_place import SearchedPlace, first_at
from agentic_backend.records.word_index import MOST_SLOTS
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.application_records import SearchedRecord, behind

# The clocks of instances differ, and what is written may be seen late, by less than this together.
_OVERLAP = timedelta(seconds=60)
# What is read at once.
_PLACES = 2_000
# About what a slot takes of memory, without what is searched.
_SLOT_BYTES = 420


class Partition(Generic[IndexT]):
    """Records have slots, in the order in which they are added; one that is changed gets another slot."""

    def __init__(
        self,
        index: type[IndexT],
        beginning: str,
        *,
        of_session: bool,
        whole_every_s: float = 60,
        filling: asyncio.Semaphore | None = None,
    ) -> None:
        """`beginning` is that of the places of its records. It is filled within `filling`."""
        self._new_index = index
        self.lock = asyncio.Lock()
        """Of whoever reads or changes it."""
        self._beginning = beginning
        self._of_session = of_session
        self._whole_every_s = whole_every_s
        self._filling = filling or asyncio.Semaphore()
        self._whole_at: float | None = None
        """When a look went through all places, by the monotonic clock; None: not yet."""
        self._looked_at: datetime | None = None
        """When the last look began, by the store's clock."""
        self._began_at = 0.0
        """The same by the monotonic clock."""
        self._clear()

    def _clear(self) -> None:
        self._whole_at = None
        self._slots: dict[str, int] = {}
        """By place, without its beginning."""
        self._places: dict[int, str] = {}
        """The same places by record."""
        self._keyed: list[tuple[str, str]] = []
        """Key and place by slot."""
        self.index = self._new_index()

    @property
    def bytes(self) -> int:
        """About what it takes of memory."""
        return self.index.bytes + len(self._keyed) * _SLOT_BYTES

    def record(self, slot: int) -> tuple[str, str]:
        """The record's key, and its place in the store."""
        key, place = self._keyed[slot]
        return key, self._beginning + place

    async def look(self, store: Store, *, whole: bool = False, since: float | None = None) -> None:
        """Read what has changed in the store; `whole`: and what is gone. A look that began after `since`, by the
        monotonic clock, is enough if not the whole is wanted. Raises StoreUnavailable.
        """
        if self.index.gone > 100 + self.index.number // 4 or len(self._keyed) > MOST_SLOTS // 2:
            self._clear()
        if self._whole_at is not None:
            if whole or since is None or self._began_at < since:
                await self._look(store, whole=whole)
            return
        async with self._filling:
            await self._look(store, whole=True)

    async def _look(self, store: Store, *, whole: bool) -> None:
        began, now = time.monotonic(), store.now()
        after = self._beginning
        if self._looked_at is None or self._whole_at is None or began - self._whole_at > self._whole_every_s:
            whole = True
        elif not whole:
            after += first_at(self._looked_at - _OVERLAP)
        there: set[str] = set()
        while True:
            places = await store.searched_places(after, behind(self._beginning), _PLACES, of_session=self._of_session)
            there.update(own := [place[len(self._beginning) :] for place in places])
            await self._read(store, own)
            if len(places) < _PLACES:
                break
            after = places[-1]
        if whole:
            for place in self._slots.keys() - there:
                self._drop(place)
            self._whole_at = began
        self._looked_at, self._began_at = now, began

    async def _read(self, store: Store, places: Sequence[str]) -> None:
        """Add the records at those places that are new."""
        new = [self._beginning + place for place in places if place not in self._slots]
        for first in range(0, len(new), self.index.read_at_once):
            batch = new[first : first + self.index.read_at_once]
            for found in await store.searched_records(self.index.column, batch, of_session=self._of_session):
                self._put(found)

    def _put(self, found: SearchedRecord) -> None:
        """Add the record, in place of what it was before."""
        place = found.searched[len(self._beginning) :]
        record = SearchedPlace.read(place).record
        if record in self._places:
            self._drop(self._places[record])
        self._slots[place], self._places[record] = len(self._keyed), place
        self._keyed.append((found.key, place))
        self.index.add(found.content)

    def _drop(self, place: str) -> None:
        slot = self._slots.pop(place, None)
        if slot is not None:
            del self._places[SearchedPlace.read(place).record]
            self.index.drop(slot)
