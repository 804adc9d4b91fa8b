"""A MongoDB database over PyMongo's asynchronous client or motor's, which share the calls used here; the store owns it.

Invariants: an operation is over within its time, whatever the network does. It counts as done only if a majority of
the servers has it in its journal, where there are several. Neither an error nor the log has the URL's credentials, or
any text of the driver's, which may quote a document.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal, Self, TypeVar, cast

import pymongo
from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    DuplicateKeyError,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
)
from pymongo.write_concern import WriteConcern

from agentic_backend.errors import AgenticError, StoreUnavailable
from agentic_backend.stores.base import Observer
from agentic_backend.stores.clock import Clock
from agentic_backend.stores.mongo_documents import Database, Document
from agentic_backend.stores.observing import observed

T = TypeVar("T")
Driver = Literal["pymongo", "motor"]

_LOG = logging.getLogger("agentic_backend.stores.mongo")
DATABASE = "agentic"
# Of the time that an operation may take, what the driver gets for all of its round trips; a client that asks is told
# that the store is away within the whole of it. A server that isn't there at the start is told of sooner.
_SHARE, _SHARE_OF_OPENING = 0.7, 0.3
# The driver keeps its deadlines itself; this much later it is cut where it doesn't.
_SHARE_OF_GRACE = 0.1
_DUPLICATE_KEY = 11_000


class MongoDriver:
    def __init__(self, client: Any, timeout_s: float, observe: Observer | None) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._observe = observe
        self.database = cast(
            Database,
            client.get_default_database(DATABASE).with_options(write_concern=WriteConcern("majority", j=True)),
        )

    @classmethod
    async def open(
        cls, url: str, *, driver: Driver, timeout_s: float, observe: Observer | None, **options: Any
    ) -> Self:
        """Connect to the server that `url` names; `options` go to the driver's client. Raises StoreUnavailable."""
        with _unavailable("open"):
            # Both clients look at the machine's files first.
            client = await asyncio.to_thread(_client, url, driver, timeout_s, options)
            opened = cls(client, timeout_s, observe)
            try:
                async with asyncio.timeout(timeout_s * (_SHARE_OF_OPENING + _SHARE_OF_GRACE)):
                    with pymongo.timeout(timeout_s * _SHARE_OF_OPENING):
                        await opened.database.command("ping")
            except BaseException:
                await opened.aclose()
                raise
        return opened

    async def compare_clocks(self, clock: Clock) -> float:
        """Let `clock` hear the server's time; how many seconds the machine's clock is ahead of it."""
        asked_at = time.monotonic()
        told: datetime = (await self.database.command("hello"))["localTime"]
        return clock.hear(told if told.tzinfo else told.replace(tzinfo=UTC), asked_at, time.monotonic())

    async def aclose(self) -> None:
        with _unavailable("close"):
            async with asyncio.timeout(self._timeout_s):
                if isinstance(self._client, AsyncMongoClient):
                    await self._client.close()
                else:
                    await asyncio.to_thread(self._client.close)

    async def run(
        self,
        operation: str,
        work: Callable[[Database], Awaitable[T]],
        *,
        late: Callable[[], AgenticError] = StoreUnavailable,
    ) -> T:
        """What `work` returns, which gets the operation's time for all that it does; the server knows it too.

        Raises StoreUnavailable, and what `work` raises itself; `late` where the server says that the time is over.
        """
        with observed(self._observe, operation), _unavailable(operation, late):
            async with asyncio.timeout(self._timeout_s * (_SHARE + _SHARE_OF_GRACE)):
                with pymongo.timeout(self._timeout_s * _SHARE):
                    return await work(self.database)


async def inserted(insertion: Awaitable[object]) -> bool:
    """Await it; False where a unique index has such a key already."""
    try:
        await insertion
    except DuplicateKeyError:
        return False
    except BulkWriteError as error:
        if any(problem["code"] != _DUPLICATE_KEY for problem in error.details["writeErrors"]):
            raise
        return False
    return True


def blocking_client(url: str) -> pymongo.MongoClient[Document]:
    """One for a thread of its own, whatever the driver; it connects when it is first used."""
    return pymongo.MongoClient(url, appname="agentic-backend heartbeat", maxPoolSize=1)


def reason_of(error: BaseException | None) -> str:
    """Why MongoDB could not be used, in words that quote neither the URL nor a document."""
    match error:
        case ConfigurationError():
            return f"the URL is wrong, or its name is unknown ({type(error).__name__})"
        case OperationFailure():
            return f"the server refused ({(error.details or {}).get('codeName', error.code)})"
        case FileNotFoundError() | PermissionError():
            return f"{error.filename}: {error.strerror}"
        case ConnectionFailure() | OSError():
            return "no server answers there"
    return type(error).__name__


def _client(url: str, driver: Driver, timeout_s: float, options: dict[str, Any]) -> Any:
    connect_ms = int(timeout_s * _SHARE * 1000)
    settings: dict[str, Any] = {"appname": "agentic-backend", "connectTimeoutMS": connect_ms} | options
    if driver == "motor":
        # An extra, which most installations don't have.
        from motor.motor_asyncio import AsyncIOMotorClient

        return AsyncIOMotorClient(url, **settings)
    return AsyncMongoClient(url, **settings)


@contextmanager
def _unavailable(operation: str, late: Callable[[], AgenticError] = StoreUnavailable) -> Iterator[None]:
    try:
        yield
    except ExecutionTimeout as error:
        _LOG.warning("MongoDB took too long in %s", operation)
        raise late() from error
    except (PyMongoError, OSError) as error:
        # TimeoutError is an OSError.
        code = getattr(error, "code", None)
        _LOG.warning("MongoDB failed in %s: %s%s", operation, type(error).__name__, f" {code}" if code else "")
        raise StoreUnavailable from error
