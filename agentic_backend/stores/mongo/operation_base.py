"""The base of MongoStore's operations: the driver, the clock, and the decorator that runs an operation.

An operation is a method that gets the database as its first argument. Its decorator gives it one timeout for all its
round trips, and reports to the observer. The Store protocol documents the operations.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from agentic_backend.stores.mongo.documents import Database
from agentic_backend.stores.mongo.driver import Clock, MongoDriver

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="Part")


class Part:
    """The base class of the store's parts."""

    def __init__(self, driver: MongoDriver, clock: Clock) -> None:
        self.driver = driver
        self.clock = clock
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def now(self) -> datetime:
        return self.clock.now()

    def turn(self, session_id: str) -> asyncio.Lock:
        """The lock that serializes changes of one session in this process.

        MongoDB doesn't need it. FerretDB 1.x reads a document and then writes it, so that of two concurrent changes one
        would be lost.
        """
        return self._turns.setdefault(session_id, asyncio.Lock())


def operation(
    method: Callable[Concatenate[S, Database, P], Awaitable[T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    name = method.__name__.removeprefix("_")

    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.driver.run(name, lambda database: method(self, database, *args, **kwargs))

    return run
