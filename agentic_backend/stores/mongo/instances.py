"""The instances on a MongoDB: a document for each, with a counter that it increments while it lives (see heartbeat)."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pymongo
from pymongo.collection import Collection
from pymongo.errors import PyMongoError

from agentic_backend.stores.heartbeat import LOOP_PATIENCE_S, beating
from agentic_backend.stores.mongo.documents import Database, Document
from agentic_backend.stores.mongo.driver import DATABASE
from agentic_backend.stores.mongo.operation_base import Part, operation

Connect = Callable[[], pymongo.MongoClient[Document]]

# Short, so that beats don't come late.
_LONGEST_BEAT_S = 2.0
# A process that ends has little time.
_REMOVE_S = 0.4
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
        async with beating(_Beats(self.connect, instance_id), instance_id, every_s, loop_patience_s):
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


class _Beats:
    """With a client of its own, which blocks the heartbeat's thread only."""

    def __init__(self, connect: Connect, instance_id: str) -> None:
        self._connect = connect
        self._instance = {"_id": instance_id}
        self._client: pymongo.MongoClient[Document] | None = None

    def beat(self) -> None:
        with pymongo.timeout(_LONGEST_BEAT_S):
            self._instances().update_one(self._instance, _ONE_MORE, upsert=True)

    def leave(self) -> None:
        with contextlib.suppress(PyMongoError, OSError), pymongo.timeout(_REMOVE_S):
            self._instances().delete_one(self._instance)
        if self._client is not None:
            with contextlib.suppress(PyMongoError, OSError), pymongo.timeout(_REMOVE_S):
                self._client.close()

    def _instances(self) -> Collection[Any]:
        # Made in the thread, since the client reads files and resolves names.
        if self._client is None:
            self._client = self._connect()
        return self._client.get_default_database(DATABASE)["instances"]
