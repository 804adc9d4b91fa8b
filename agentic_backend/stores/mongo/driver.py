"""A MongoDB database over PyMongo's asynchronous client or motor's, which share the calls used here; the store owns it.

Invariants: an operation ends within its timeout, whatever the network does. It is never cancelled: a caller that gives
up leaves it to its own deadline. On Python 3.11 `asyncio.wait_for` can leave a task behind if it is cancelled twice;
PyMongo's client waits for a server by it, and would then hold its lock for good. A write counts as done only if a
majority of the servers has it in their journals. Neither an error nor the log holds the URL's credentials, or a text of
the driver, which may quote a document.

Clock gives the database's time, which all its instances share. The clocks of machines may be hours apart, and may be
set while a process runs; so once the clock knows the database's time, it uses only the process's monotonic clock to
advance it.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
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
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
    WriteError,
)
from pymongo.write_concern import WriteConcern

from agentic_backend.errors import AgenticError, StoreUnavailable
from agentic_backend.loop.loop_load import wait_served
from agentic_backend.protocol.messages import utc_now
from agentic_backend.stores.mongo.documents import Database, Document
from agentic_backend.stores.observing import Observer, observed
from agentic_backend.system_errors import Away, away_reason_of, causes_of, summary_of, system_words_of

T = TypeVar("T")
Driver = Literal["pymongo", "motor"]

_LOG = logging.getLogger("agentic_backend.stores.mongo")
DATABASE = "agentic"
UNKNOWN_TO_SERVER = frozenset({238, 168, 40324, 15952, 15999, 40234})
"""The error codes for parts of a pipeline that a server lacks: NotImplemented, InvalidPipelineOperator, and unknown
stages, accumulators, expressions.
"""
# The driver's share of an operation's timeout, for all its round trips: so the client hears within the whole timeout
# that the store is away. Opening gets less, so that a missing server is reported sooner.
_SHARE, _SHARE_OF_OPENING = 0.7, 0.3
# The driver keeps its deadlines itself; if it doesn't, nobody waits for it any longer than this.
_SHARE_OF_GRACE = 0.1
_DUPLICATE_KEY = 11_000
_AWAY: dict[int, Away] = {
    # UserNotFound, AuthenticationFailed; Unauthorized; OutOfDiskSpace.
    11: "refused_credentials",
    18: "refused_credentials",
    13: "no_permission",
    14031: "full",
}
_NO_PRIMARY = ("No primary available for writes", "No replica set members match selector")
"""PyMongo's words for a replica set that answers, without a primary."""
# The precision of the database's time.
_TOLD_TO_S = 0.001


class Clock:
    """The database's time; until `hear` is called, that of `wall`, the machine's clock."""

    def __init__(self, wall: Callable[[], datetime] = utc_now, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._offset_s: float | None = None
        """The database's time, in Unix seconds, minus the monotonic clock's; None before it is known."""

    def now(self) -> datetime:
        if self._offset_s is None:
            return self._wall()
        return datetime.fromtimestamp(self._offset_s + self._monotonic(), UTC)

    def hear(self, told: datetime, asked_at: float, heard_at: float) -> float:
        """Adopt the time that the database sent between two times of the monotonic clock.

        Returns how many seconds the machine's clock is ahead of it. A slow answer allows a range of offsets; the one
        nearest to the previous offset is taken, so that the time doesn't waver.
        """
        told_s = told.timestamp()
        least, most = told_s - heard_at, told_s + _TOLD_TO_S - asked_at
        before = (least + most) / 2 if self._offset_s is None else self._offset_s
        self._offset_s = min(max(before, least), most)
        return (self._wall() - self.now()).total_seconds()


class MongoDriver:
    def __init__(self, client: Any, timeout_s: float, observe: Observer | None) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._observe = observe
        self._at_work: set[asyncio.Task[Any]] = set()
        """The operations that have not ended, also those that no caller waits for any more."""
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
            # In a thread: both clients read files first.
            client = await asyncio.to_thread(_client, url, driver, timeout_s, options)
            opened = cls(client, timeout_s, observe)
            try:
                await opened._in_time(lambda database: database.command("ping"), timeout_s * _SHARE_OF_OPENING)
            except BaseException:
                await opened.aclose()
                raise
        return opened

    async def compare_clocks(self, clock: Clock) -> float:
        """Set `clock` to the server's time; return how many seconds the machine's clock is ahead of it."""
        asked_at = time.monotonic()
        told: datetime = (await self.database.command("hello"))["localTime"]
        return clock.hear(told if told.tzinfo else told.replace(tzinfo=UTC), asked_at, time.monotonic())

    async def aclose(self) -> None:
        with _unavailable("close"):
            # Operations that no caller waits for end by their own deadlines.
            if self._at_work:
                await asyncio.wait(self._at_work, timeout=self._timeout_s)
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
        """The result of `work`, which has one timeout for all its commands; the server gets it too.

        Raises StoreUnavailable, `late` if the server reports the timeout, and what `work` raises.
        """
        with observed(self._observe, operation, "mongodb", why_away), _unavailable(operation, late):
            return await self._in_time(work, self._timeout_s * _SHARE)

    async def run_long(self, operation: str, work: Callable[[Database], Awaitable[T]], at_most_s: float) -> T:
        """Like `run`, for what takes the server long. It may be cancelled: `aclose` doesn't wait for it."""
        with _unavailable(operation), pymongo.timeout(at_most_s):
            return await work(self.database)

    async def _in_time(self, work: Callable[[Database], Awaitable[T]], timeout_s: float) -> T:
        """The result of `work`, whose deadline the driver keeps. Raises TimeoutError if it doesn't."""

        async def at_work() -> T:
            return await work(self.database)

        # The task takes the deadline with its context.
        with pymongo.timeout(timeout_s):
            operation = asyncio.create_task(at_work())
        self._at_work.add(operation)
        operation.add_done_callback(self._has_ended)
        await wait_served(operation, timeout_s + self._timeout_s * _SHARE_OF_GRACE)
        if not operation.done():
            raise TimeoutError from self._last_error()
        return operation.result()

    def _last_error(self) -> Exception | None:
        """What kept the driver from a server when it last tried, since it tells nobody before its own deadline."""
        topology = self._client.topology_description
        errors = (server.error for server in topology.server_descriptions().values() if server.error is not None)
        has_no_primary = topology.has_known_servers and not topology.has_writable_server()
        return next(errors, None) or (NotPrimaryError("no primary") if has_no_primary else None)

    def _has_ended(self, operation: asyncio.Task[Any]) -> None:
        self._at_work.discard(operation)
        if not operation.cancelled():
            # Look at the error of an operation that nobody waits for, so that asyncio doesn't report it.
            operation.exception()


async def together(*operations: Awaitable[Any]) -> list[Any]:
    """The results of operations that run at the same time. Raises the first error, once all have ended."""
    results = await asyncio.gather(*operations, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


async def inserted(insertion: Awaitable[object]) -> bool:
    """Await the insertion; False if a unique index already has a key of it."""
    try:
        await insertion
    except DuplicateKeyError:
        return False
    except BulkWriteError as error:
        if any(problem["code"] != _DUPLICATE_KEY for problem in error.details["writeErrors"]):
            raise
        return False
    return True


async def aggregated(collection: Any, pipeline: Sequence[Document]) -> list[Document]:
    """What the pipeline makes of the collection."""
    cursor = collection.aggregate(pipeline, allowDiskUse=True)
    # PyMongo's is awaited, motor's is not.
    if isinstance(cursor, Awaitable):
        cursor = await cursor
    rows: list[Document] = await cursor.to_list(None)
    return rows


def blocking_client(url: str) -> pymongo.MongoClient[Document]:
    """A blocking client for the heartbeat's thread, with either driver; it connects at its first use."""
    return pymongo.MongoClient(url, appname="agentic-backend heartbeat", maxPoolSize=1)


def reason_of(error: BaseException | None) -> str:
    """Why MongoDB can't be used, in words that quote neither the URL nor a document."""
    match error:
        case ConfigurationError():
            return f"the URL is wrong, or its name is unknown ({summary_of(error)})"
        case OperationFailure():
            return f"the server refused ({(error.details or {}).get('codeName', error.code)})"
        case FileNotFoundError() | PermissionError() if error.filename:
            return f"{error.filename}: {error.strerror}"
        case ConnectionFailure() | OSError():
            words = system_words_of(error)
            return f"no server answers there{f' ({words})' if words else ''}"
    return type(error).__name__ if error is None else summary_of(error)


def why_away(error: BaseException) -> Away:
    """Why MongoDB does not serve, in one word; the error's text may quote the URL or a document."""
    # A timeout of ours says less than what the driver knew.
    error = next((each for each in causes_of(error) if isinstance(each, PyMongoError)), error)
    match error:
        case NotPrimaryError():
            return "read_only"
        case ServerSelectionTimeoutError() if str(error).startswith(_NO_PRIMARY):
            return "read_only"
        case OperationFailure() if why := next((_AWAY[code] for code in _codes_of(error) if code in _AWAY), None):
            return why
        case WriteError() | WriteConcernError() | BulkWriteError():
            # It lacks its replicas, or says why in its own log.
            return "refuses_writes"
        case PyMongoError() if error.timeout:
            return away_reason_of(error, "no_answer")
        case ConnectionFailure():
            return away_reason_of(error, "unreachable")
    return away_reason_of(error)


def _codes_of(error: OperationFailure) -> Iterator[int]:
    """The server's codes: its answer's, and those of a write of several documents."""
    details = error.details or {}
    for failed in (details, *(details.get("writeErrors") or ()), *(details.get("writeConcernErrors") or ())):
        code = failed.get("code") if isinstance(failed, Mapping) else None
        yield code if isinstance(code, int) else error.code or 0


def _client(url: str, driver: Driver, timeout_s: float, options: dict[str, Any]) -> Any:
    connect_ms = int(timeout_s * _SHARE * 1000)
    settings: dict[str, Any] = {"appname": "agentic-backend", "connectTimeoutMS": connect_ms} | options
    if driver == "motor":
        # motor is an extra, which most installations don't have.
        from motor.motor_asyncio import AsyncIOMotorClient

        return AsyncIOMotorClient(url, **settings)
    return AsyncMongoClient(url, **settings)


@contextmanager
def _unavailable(operation: str, late: Callable[[], AgenticError] = StoreUnavailable) -> Iterator[None]:
    try:
        yield
    except ExecutionTimeout as error:
        _LOG.warning("MongoDB took too long", extra={"operation": operation})
        raise late() from error
    except (PyMongoError, OSError) as error:
        # TimeoutError is an OSError.
        told = {"operation": operation, "reason": why_away(error), "error": summary_of(error)}
        _LOG.warning("MongoDB failed", extra={**told, "mongodb_code": getattr(error, "code", None)})
        raise StoreUnavailable from error
