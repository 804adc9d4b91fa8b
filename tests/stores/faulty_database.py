"""A MongoDB database whose round trips a test can delay, refuse, or carry out without an answer."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, cast

from pymongo.errors import AutoReconnect

from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo.documents import Database

Fault = Callable[[str, str], str | asyncio.Event]
"""What becomes of a round trip, given its collection and its method: `fine`, `slow`, `refused` or `unheard`.

With an event, it waits for that first.
"""


Follow = Callable[[str, str, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Makes a round trip, given its collection and its method."""


async def _plainly(_collection: str, _method: str, trip: Callable[[], Awaitable[Any]]) -> Any:
    return await trip()


class FaultyDatabase:
    def __init__(self, real: Database, fault: Fault, follow: Follow = _plainly) -> None:
        self._real = real
        self._fault = fault
        self._follow = follow

    def __getitem__(self, collection: str) -> "_Collection":
        return _Collection(self._real[collection], collection, self._fault, self._follow)


class _Collection:
    def __init__(self, real: Any, name: str, fault: Fault, follow: Follow) -> None:
        self._real = real
        self._name = name
        self._fault = fault
        self._follow = follow

    def find(self, *args: Any) -> "_Cursor":
        return _Cursor(self._real.find(*args), lambda trip: self._trip("find", trip))

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._trip(method, lambda: getattr(self._real, method)(*args, **kwargs))

        return call

    async def _trip(self, method: str, trip: Callable[[], Awaitable[Any]]) -> Any:
        fate = self._fault(self._name, method)
        if isinstance(fate, asyncio.Event):
            await fate.wait()
        if fate == "slow":
            await asyncio.sleep(0.01)
        if fate == "refused":
            raise AutoReconnect("refused")
        result = await self._follow(self._name, method, trip)
        if fate == "unheard":
            raise AutoReconnect("unheard")
        return result


class _Cursor:
    def __init__(self, real: Any, trip: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]) -> None:
        self._real = real
        self._trip = trip

    def sort(self, *args: Any) -> "_Cursor":
        return _Cursor(self._real.sort(*args), self._trip)

    def skip(self, *args: Any) -> "_Cursor":
        return _Cursor(self._real.skip(*args), self._trip)

    def limit(self, *args: Any) -> "_Cursor":
        return _Cursor(self._real.limit(*args), self._trip)

    def batch_size(self, *args: Any) -> "_Cursor":
        return _Cursor(self._real.batch_size(*args), self._trip)

    async def __aiter__(self) -> AsyncIterator[Any]:
        for row in await self.to_list(None):
            yield row

    async def to_list(self, length: None) -> Any:
        return await self._trip(lambda: self._real.to_list(length))


def make_faulty(store: MongoStore, fault: Fault) -> Database:
    """From now on the store's round trips go as `fault` says; the database without faults."""
    real = store.driver.database
    store.driver.database = cast(Database, FaultyDatabase(real, fault))
    return real


def always(collection: str, method: str, fate: str) -> Fault:
    """All round trips of this kind are other than fine."""
    return lambda *trip: fate if trip == (collection, method) else "fine"


def once(collection: str, method: str, fate: str | asyncio.Event) -> Fault:
    """Only the next round trip of this kind is another than fine."""
    left = [fate]
    return lambda *trip: left.pop() if left and trip == (collection, method) else "fine"


def at(places: Mapping[tuple[str, str, int], asyncio.Event]) -> tuple[Fault, Callable[[str, str, int], bool]]:
    """Each round trip of `places` (its collection, its method, which of these from now on) waits for its event.

    And whether such a round trip has come.
    """
    came: Counter[tuple[str, str]] = Counter()

    def fault(collection: str, method: str) -> str | asyncio.Event:
        came[collection, method] += 1
        return places.get((collection, method, came[collection, method]), "fine")

    return fault, lambda collection, method, number: came[collection, method] >= number
