"""A session may be deleted between the two reads of its last exchange's messages."""

import asyncio
import sqlite3
from contextlib import aclosing, closing
from pathlib import Path

from agentic_backend.stores.sqlite import SqliteStore
from tests.stores.conftest import OpenMongo
from tests.stores.faulty_database import at, make_faulty
from tests.stores.samples import begin_new


async def test_in_sqlite_nothing_is_left_of_its_messages(tmp_path: Path) -> None:
    path, reads = tmp_path / "store.db", 0

    def delete_before_the_second(statement: str) -> None:
        nonlocal reads
        reads += "FROM messages" in statement
        if reads == 2:
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("DELETE FROM messages")

    async with aclosing(await SqliteStore.open(path, timeout_s=10)) as store:
        fence = await begin_new(store)
        await store.reader.read("trace", lambda db: db.set_trace_callback(delete_before_the_second))
        assert await store.exchange_messages(fence.exchange_id, 1000) == []
    assert reads == 2


async def test_in_mongodb_nothing_is_left_of_its_messages(open_mongo: OpenMongo) -> None:
    store, other = await open_mongo(), await open_mongo()
    fence, deleted = await begin_new(store), asyncio.Event()
    fault, came = at({("messages", "find", 2): deleted})
    make_faulty(store, fault)
    reading = asyncio.create_task(store.exchange_messages(fence.exchange_id, 1000))
    while not came("messages", "find", 2):
        await asyncio.sleep(0)
    await other.delete_session(fence.session_id)
    deleted.set()
    assert await reading == []
