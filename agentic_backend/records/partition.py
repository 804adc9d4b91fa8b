"""Partition: what is in memory of the records that are searched together, kept as the store has them.

A look at the store reads the places of what was written since the look before, and the records at those that are new.
What was removed has no place to be found at; so now and then a look goes through all places.
"""

import asyncio
import time
from array import array
from collections.abc import Sequence
from datetime import datetime, timedelta

from agentic_backend.records.searched_place import SearchedPlace, first_at
from agentic_backend.records.word_index import MOST_SLOTS, WordIndex
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.application_records import SearchedRecord, behind

# The clocks of instances differ, and what is written may be seen late, by less than this together.
_OVERLAP = timedelta(seconds=60)
# What is read at once. Others wait for the loop while records are added, for some milliseconds.
_PLACES, _RECORDS = 1_000, 100
# About what a slot takes of memory, without its words.
_SLOT_BYTES = 250


class Partition:
    """Records have slots, in the order in which they are added; one that is changed gets another slot."""

    def __init__(self, beginning: str, *, of_session: bool, whole_every_s: float = 60) -> None:
        """`beginning` is that of the places of its records."""
        self.lock = asyncio.Lock()
        """Of whoever reads or changes it."""
        self._beginning = beginning
        self._of_session = of_session
        self._whole_every_s = whole_every_s
        self._whole_at: float | None = None
        """When a look went through all places, by the monotonic clock; None: not yet."""
        self._looked_at: datetime | None = None
        """When the last look began, by the store's clock."""
        self._clear()

    def _clear(self) -> None:
        self._whole_at = None
        self._slots: dict[int, int] = {}
        """By record, as places have it."""
        self._keys: list[str] = []
        self._records, self._times, self._revisions = array("Q"), array("Q"), array("Q")
        """What the places have, by slot."""
        self.words = WordIndex()

    @property
    def bytes(self) -> int:
        """About what it takes of memory."""
        return self.words.bytes + len(self._keys) * _SLOT_BYTES

    def key(self, slot: int) -> str:
        return self._keys[slot]

    def place(self, slot: int) -> str:
        """The record's place in the store."""
        place = SearchedPlace(self._times[slot], self._records[slot], self._revisions[slot])
        return self._beginning + place.text

    def has(self, place: str) -> bool:
        """Whether the place is one of this partition's."""
        return place.startswith(self._beginning)

    async def look(self, store: Store, *, whole: bool = False) -> None:
        """Read what has changed in the store; `whole`: and what is gone. Raises StoreUnavailable."""
        if self.words.gone > 100 + self.words.number // 4 or len(self._keys) > MOST_SLOTS // 2:
            self._clear()
        began, now = time.monotonic(), store.now()
        after = self._beginning
        if self._looked_at is None or self._whole_at is None or began - self._whole_at > self._whole_every_s:
            whole = True
        elif not whole:
            after += first_at(self._looked_at - _OVERLAP)
        there: set[int] = set()
        while True:
            places = await store.searched_places(after, behind(self._beginning), _PLACES, of_session=self._of_session)
            await self._read(store, places, there)
            if len(places) < _PLACES:
                break
            after = places[-1]
        if whole:
            for record in self._slots.keys() - there:
                self._drop(record)
            self._whole_at = began
        self._looked_at = now

    async def _read(self, store: Store, places: Sequence[str], there: set[int]) -> None:
        """Add the records at those places that are new, and all that are at the places to what is `there`."""
        new: list[str] = []
        for text in places:
            place = self._read_place(text)
            there.add(place.record)
            if not self._is_known(place):
                new.append(text)
        for first in range(0, len(new), _RECORDS):
            batch = new[first : first + _RECORDS]
            for found in await store.searched_records(batch, of_session=self._of_session):
                self.put(found)

    def put(self, found: SearchedRecord) -> None:
        """Add the record, in place of what it was before."""
        place = self._read_place(found.searched)
        if self._is_known(place):
            return
        self._drop(place.record)
        self._slots[place.record] = len(self._keys)
        self._keys.append(found.key)
        self._records.append(place.record)
        self._times.append(place.at)
        self._revisions.append(place.revision)
        self.words.add(found.words)

    def forget(self, text: str) -> None:
        """Leave out the record that was at a place, unless it has another one now."""
        place = self._read_place(text)
        if self._is_known(place):
            self._drop(place.record)

    def _drop(self, record: int) -> None:
        slot = self._slots.pop(record, None)
        if slot is not None:
            self.words.drop(slot)

    def _is_known(self, place: SearchedPlace) -> bool:
        slot = self._slots.get(place.record)
        return slot is not None and (self._times[slot], self._revisions[slot]) == (place.at, place.revision)

    def _read_place(self, text: str) -> SearchedPlace:
        return SearchedPlace.read(text[len(self._beginning) :])
