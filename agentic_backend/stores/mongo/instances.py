"""The instances on a MongoDB: a document for each, with a counter that it increments while it lives.

If the counter stands still, others take the instance for dead; they need not compare clocks for that. A thread with its
own client increments it, since an agent may block the event loop for longer than a lease; but only for a while, so that
an instance whose loop is blocked for good loses its exchanges. Code that holds Python's global lock all that time, such
as a backtracking regular expression, stops the thread too.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pymongo
from pymongo.collection import Collection
from pymongo.errors import PyMongoError

from agentic_backend.stores.mongo.documents import Database, Document
from agentic_backend.stores.mongo.driver import DATABASE
from agentic_backend.stores.mongo.operations import Part, operation

Connect = Callable[[], pymongo.MongoClient[Document]]

_LOG = logging.getLogger("agentic_backend.stores.mongo")
# The longest time that the event loop may be blocked before the heartbeat stops.
LOOP_PATIENCE_S = 60.0
_SIGN_EVERY_S = 1.0
# After a failed beat the next one comes sooner; the timeout is short, so that beats don't come late.
_RETRY_S, _LONGEST_BEAT_S = 0.5, 2.0
# A process that ends has little time.
_REMOVE_S, _END_S = 0.4, 0.6
_ONE_MORE = {"$inc": {"beat": 1}}


class Instances(Part):
    connect: Connect
    """Makes the client of the heartbeat."""

    @contextlib.asynccontextmanager
    async def heartbeat(
        self, instance_id: str, every_s: float, *, loop_patience_s: float = LOOP_PATIENCE_S
    ) -> AsyncIterator[None]:
        """See `Store`; the counter moves while the event loop is blocked for less than `loop_patience_s`."""
        await self._beat(instance_id)
        async with _beating(_Heart(self.connect, instance_id, every_s, loop_patience_s)):
            yield

    @operation
    async def _beat(self, database: Database, instance_id: str) -> None:
        # Upsert: the document is missing at first, and if others have removed it.
        await database["instances"].update_one({"_id": instance_id}, _ONE_MORE, upsert=True)

    @operation
    async def beats(self, database: Database) -> dict[str, int]:
        return {found["_id"]: found["beat"] for found in await database["instances"].find().to_list(None)}

    @operation
    async def forget_instance(self, database: Database, instance_id: str, last_beat: int) -> None:
        await database["instances"].delete_one({"_id": instance_id, "beat": last_beat})

    @operation
    async def compare_clocks(self, database: Database) -> float | None:
        return await self.driver.compare_clocks(self.clock)


@contextlib.asynccontextmanager
async def _beating(heart: "_Heart") -> AsyncIterator[None]:
    """Run the heartbeat while the context is open; then remove the instance's document."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        heart.run()
        # The loop may be closed already, if the end took too long.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    # A daemon, so that an unreachable MongoDB doesn't keep the process from ending.
    threading.Thread(target=run, name=f"heartbeat {heart.instance_id}", daemon=True).start()
    signs = asyncio.create_task(heart.show_signs())
    try:
        yield
    finally:
        heart.stopping.set()
        signs.cancel()
        await asyncio.wait({signs})
        # Not joined in the loop's thread pool: agents may have blocked all its threads.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await ended.wait()


class _Heart:
    """`run` runs in the thread, `show_signs` in the event loop."""

    def __init__(self, connect: Connect, instance_id: str, every_s: float, loop_patience_s: float) -> None:
        self.instance_id = instance_id
        self.stopping = threading.Event()
        self._connect = connect
        self._instance = {"_id": instance_id}
        self._every_s = every_s
        self._loop_patience_s = loop_patience_s
        self._sign_at = time.monotonic()
        """Time of the event loop's last sign of life."""
        self._client: pymongo.MongoClient[Document] | None = None
        self._is_failing = False

    async def show_signs(self) -> None:
        while True:
            self._sign_at = time.monotonic()
            await asyncio.sleep(_SIGN_EVERY_S)

    def run(self) -> None:
        """Beat until `stopping` is set, then remove the document."""
        wait_s = self._every_s
        while not self.stopping.wait(wait_s):
            wait_s = self._every_s
            if time.monotonic() - self._sign_at > self._loop_patience_s:
                self._tell("the event loop is blocked")
            elif not self._beat():
                wait_s = min(self._every_s, _RETRY_S)
        self._leave()

    def _beat(self) -> bool:
        try:
            with pymongo.timeout(_LONGEST_BEAT_S):
                self._instances().update_one(self._instance, _ONE_MORE, upsert=True)
        except Exception as error:
            # The thread must not end, or others take all exchanges of this instance for dead. The error's text is not
            # logged: a driver's may hold the URL.
            self._tell(type(error).__name__)
            return False
        if self._is_failing:
            _LOG.info("heartbeat works again")
        self._is_failing = False
        return True

    def _tell(self, reason: str) -> None:
        if not self._is_failing:
            _LOG.warning("heartbeat fails", extra={"reason": reason})
        self._is_failing = True

    def _instances(self) -> Collection[Any]:
        # Made in the thread, since the client reads files and resolves names.
        if self._client is None:
            self._client = self._connect()
        return self._client.get_default_database(DATABASE)["instances"]

    def _leave(self) -> None:
        with contextlib.suppress(PyMongoError, OSError), pymongo.timeout(_REMOVE_S):
            self._instances().delete_one(self._instance)
        if self._client is not None:
            with contextlib.suppress(PyMongoError, OSError), pymongo.timeout(_REMOVE_S):
                self._client.close()
