"""The instances on a MongoDB: a document for each, with a counter that it moves while it lives.

Others take an instance whose counter stands still for dead, and compare no clocks for that. A thread with a client of
its own moves it, since the event loop may be blocked by an agent for longer than a lease; but only for a while, so that
a loop that is blocked for good loses its exchanges. Code that holds Python's global lock for all that time, such as a
regular expression that backtracks, stops the thread as well.
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

from agentic_backend.stores.mongo_documents import Database, Document

Connect = Callable[[], pymongo.MongoClient[Document]]

_LOG = logging.getLogger("agentic_backend.stores.mongo")
# How long the event loop may be blocked before its instance is given up.
LOOP_PATIENCE_S = 60.0
_SIGN_EVERY_S = 1.0
# After a beat that failed the next one comes sooner, and none may take long: others count.
_RETRY_S, _LONGEST_BEAT_S = 0.5, 2.0
# A process that goes has little time.
_REMOVE_S, _END_S = 0.4, 0.6
_ONE_MORE = {"$inc": {"beat": 1}}


async def beat(database: Database, instance_id: str) -> None:
    """Move the instance's counter; the first time, and where others have removed its document, make one."""
    await database["instances"].update_one({"_id": instance_id}, _ONE_MORE, upsert=True)


async def beats(database: Database) -> dict[str, int]:
    return {document["_id"]: document["beat"] for document in await database["instances"].find().to_list(None)}


async def forget(database: Database, instance_id: str, last_beat: int) -> None:
    await database["instances"].delete_one({"_id": instance_id, "beat": last_beat})


@contextlib.asynccontextmanager
async def beating(
    connect: Connect, database: str, instance_id: str, every_s: float, loop_patience_s: float
) -> AsyncIterator[None]:
    """The instance's counter moves in the database of this name while the context is open; then its document goes."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    heart = _Heart(connect, database, instance_id, every_s, loop_patience_s)

    def run() -> None:
        heart.run()
        # Where the end takes too long, nobody waits for it any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    # A daemon: a server that is away must not keep the process from ending.
    threading.Thread(target=run, name=f"heartbeat {instance_id}", daemon=True).start()
    signs = asyncio.create_task(heart.show_signs())
    try:
        yield
    finally:
        heart.stopping.set()
        signs.cancel()
        await asyncio.wait({signs})
        # Not joined in one of the loop's threads: agents may have blocked all of these.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await ended.wait()


class _Heart:
    """`run` is the thread's; `show_signs` is the event loop's."""

    def __init__(
        self, connect: Connect, database: str, instance_id: str, every_s: float, loop_patience_s: float
    ) -> None:
        self.stopping = threading.Event()
        self._connect = connect
        self._database = database
        self._instance = {"_id": instance_id}
        self._every_s = every_s
        self._loop_patience_s = loop_patience_s
        self._sign_at = time.monotonic()
        """When the event loop has last shown that it lives."""
        self._client: pymongo.MongoClient[Document] | None = None
        self._is_failing = False

    async def show_signs(self) -> None:
        while True:
            self._sign_at = time.monotonic()
            await asyncio.sleep(_SIGN_EVERY_S)

    def run(self) -> None:
        """Until `stopping` is set."""
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
            # A thread that ended would let every exchange of this instance be taken for dead. Not the text of the
            # error: a driver's may have the URL in it.
            self._tell(type(error).__name__)
            return False
        if self._is_failing:
            _LOG.info("the heartbeat goes on")
        self._is_failing = False
        return True

    def _tell(self, reason: str) -> None:
        if not self._is_failing:
            _LOG.warning("the heartbeat fails: %s", reason)
        self._is_failing = True

    def _instances(self) -> Collection[Any]:
        # Made here, since it looks at the machine's files and asks for the servers' names; later ones find it made.
        if self._client is None:
            self._client = self._connect()
        return self._client.get_default_database(self._database)["instances"]

    def _leave(self) -> None:
        with contextlib.suppress(PyMongoError, OSError), pymongo.timeout(_REMOVE_S):
            self._instances().delete_one(self._instance)
        if self._client is not None:
            with contextlib.suppress(PyMongoError, OSError), pymongo.timeout(_REMOVE_S):
                self._client.close()
