"""What is left in the file after full disks, locks, cancellations and kills."""

import asyncio
import os
import random
import resource
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import pytest

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.base import Fence, SessionQuery
from agentic_backend.stores.protocol.usage_sums import UsageQuery
from agentic_backend.stores.records import SessionRecord
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.stores.sqlite.connection import SqliteConnection
from tests.stores import endless_writer
from tests.stores.samples import (
    ENDLESS,
    a_session,
    an_end,
    an_exchange,
    answer,
    begin,
    begin_new,
    new_id,
    question,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path, timeout_s=10)
    yield store
    await store.aclose()


@pytest.fixture
async def hasty_store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path, timeout_s=10)
    # Only its writer: a busy machine takes its time to open a file and to read it.
    store.writer._timeout_s = 1.5
    yield store
    await store.aclose()


@pytest.fixture
async def other(path: Path) -> AsyncIterator[SqliteConnection]:
    """Somebody else's connection to the same file."""
    connection = await SqliteConnection.open(path, timeout_s=10)
    yield connection
    await connection.aclose()


async def execute(connection: SqliteConnection, sql: str) -> list[sqlite3.Row]:
    """Run one statement outside any transaction."""
    return await connection.read("test", lambda db: db.execute(sql).fetchall())


async def ranks(store: SqliteStore, session_id: str) -> list[int]:
    return [message.rank for message in await store.messages_after(session_id, -1, 100_000)]


async def test_a_full_disk_loses_one_batch_and_nothing_else(store: SqliteStore) -> None:
    fence = await begin_new(store)
    before = await store.get_session(fence.session_id)
    batch = [answer("short"), answer("x" * 1_000_000), answer("short")]
    ((pages,),) = await execute(store.writer, "PRAGMA page_count")
    await execute(store.writer, f"PRAGMA max_page_count = {pages + 5}")
    for end in (None, an_end(session_state=b"lost")):
        with pytest.raises(StoreUnavailable) as caught:
            await store.append(fence, batch, end)
        assert isinstance(caught.value.__cause__, sqlite3.Error)
        assert caught.value.__cause__.sqlite_errorname == "SQLITE_FULL"
    assert await store.get_session(fence.session_id) == before
    assert await ranks(store, fence.session_id) == [0]
    assert await store.session_state(fence.session_id) is None

    await execute(store.writer, f"PRAGMA max_page_count = {pages + 5000}")
    await store.append(fence, batch, an_end(session_state=b"kept"))
    assert await ranks(store, fence.session_id) == [0, 1, 2, 3]
    assert await store.session_state(fence.session_id) == b"kept"


@contextmanager
def files_not_above(size: int) -> Iterator[None]:
    """The kernel refuses to write any file beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_write_that_the_kernel_refuses_loses_one_batch_and_nothing_else(store: SqliteStore, path: Path) -> None:
    fence = await begin_new(store)
    size = (await asyncio.to_thread(os.stat, f"{path}-wal")).st_size
    with files_not_above(size + 20_000):
        with pytest.raises(StoreUnavailable) as caught:
            await store.append(fence, [answer("x" * 10_000)] * 5, an_end())
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert await ranks(store, fence.session_id) == [0]
    await store.append(fence, [answer("x" * 10_000)] * 5, an_end())
    assert await ranks(store, fence.session_id) == [0, 1, 2, 3, 4, 5]
    assert [row[0] for row in await execute(store.writer, "PRAGMA integrity_check")] == ["ok"]


async def test_a_locked_file_is_unavailable_to_writers_until_it_is_free(
    hasty_store: SqliteStore, other: SqliteConnection, caplog: pytest.LogCaptureFixture
) -> None:
    fence = await begin_new(hasty_store)
    await execute(other, "BEGIN IMMEDIATE")
    outcomes = await asyncio.gather(*(hasty_store.append(fence, [answer()]) for _ in range(5)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 5
    told = [(vars(record)["operation"], vars(record)["reason"]) for record in caplog.records]
    assert ("append", "SQLITE_BUSY") in told
    assert await ranks(hasty_store, fence.session_id) == [0]
    await execute(other, "ROLLBACK")
    await hasty_store.append(fence, [answer()], an_end())
    assert await ranks(hasty_store, fence.session_id) == [0, 1]


async def test_a_read_waits_neither_for_a_writer_nor_for_a_search_or_report(
    store: SqliteStore, other: SqliteConnection
) -> None:
    fence = await begin_new(store)
    await execute(other, "BEGIN IMMEDIATE")
    writing = asyncio.ensure_future(store.append(fence, [answer()]))
    endless = [asyncio.ensure_future(execute(connection, ENDLESS)) for connection in (store.searcher, store.reporter)]
    await asyncio.sleep(0.05)
    assert await ranks(store, fence.session_id) == [0]
    assert len((await store.list_sessions(SessionQuery("ann"))).sessions) == 1
    of_session = UsageQuery(session_id=fence.session_id, by=("exchange_id",))
    for query in (UsageQuery(user_id="ann"), UsageQuery(group="7b"), of_session):
        assert await store.usage_sums(query) == []
    assert not any(task.done() for task in (writing, *endless))
    for task in endless:
        task.cancel()
    await execute(other, "ROLLBACK")
    await writing


def copy_of(fence: Fence, next_rank: int) -> Fence:
    return Fence(fence.session_id, fence.exchange_id, next_rank)


async def interrupted(task: asyncio.Task[object], chance: random.Random, longest_s: float = 0.001) -> None:
    """Cancel `task` at some point between its start and its end."""
    for _ in range(chance.randrange(4)):
        await asyncio.sleep(0)
    await asyncio.sleep(chance.choice([0, chance.uniform(0, longest_s)]))
    task.cancel()
    await asyncio.wait({task})


async def test_a_cancelled_batch_is_whole_or_absent(store: SqliteStore) -> None:
    chance = random.Random(7)
    fence = await begin_new(store)
    sizes, absent, longest_s = [1], 0, 0.001
    for _ in range(400):
        size = chance.randrange(1, 6)
        task = asyncio.ensure_future(store.append(fence, [answer("x" * 3000)] * size))
        await interrupted(task, chance, longest_s)
        session = await store.get_session(fence.session_id)
        assert session is not None and session.next_rank in (fence.next_rank, fence.next_rank + size)
        assert not await store.writer.read("test", lambda db: db.in_transaction)
        # What was over when the caller was told is still over now.
        assert await store.get_session(fence.session_id) == session
        # Later if it comes too soon, and sooner if too late, on a slow machine as on a quick one.
        if session.next_rank == fence.next_rank:
            absent += 1
            longest_s = min(longest_s * 1.2, 0.1)
        else:
            longest_s /= 1.2
            sizes.append(size)
        fence = copy_of(fence, session.next_rank)
    assert absent > 10 and len(sizes) > 10
    assert await ranks(store, fence.session_id) == list(range(sum(sizes)))
    await store.append(fence, [answer()], an_end())


async def test_a_cancelled_beginning_is_whole_or_absent(store: SqliteStore) -> None:
    chance = random.Random(8)

    async def attempt() -> bool:
        session = a_session(new_id())
        exchange = an_exchange(session)
        task = asyncio.ensure_future(store.begin_exchange(exchange, question(), session))
        await interrupted(task, chance)
        stored = await store.get_session(session.id)
        record = await store.get_exchange(exchange.id)
        messages = await store.exchange_messages(exchange.id)
        assert (stored is None, record is None, len(messages)) in ((True, True, 0), (False, False, 1))
        return stored is not None

    for _ in range(40):
        await asyncio.gather(*(attempt() for _ in range(8)))
    await begin_new(store)


async def test_calls_under_way_end_before_the_store_is_closed(path: Path) -> None:
    async with aclosing(await SqliteStore.open(path, timeout_s=10)) as store:
        fence = await begin_new(store)
        writing = asyncio.ensure_future(store.append(fence, [answer()] * 50))
        await asyncio.sleep(0)
    written = await writing
    async with aclosing(await SqliteStore.open(path, timeout_s=10)) as reopened:
        assert await reopened.get_session(fence.session_id) == written.session


async def test_nobody_can_store_a_client_exchange_id_twice(store: SqliteStore) -> None:
    """By the schema itself, whatever the code above it does."""
    user = new_id()
    await begin_new(store, user, client_exchange_id="once")
    fence = await begin_new(store, user)
    with pytest.raises(StoreUnavailable) as caught:
        await execute(
            store.writer, f"UPDATE exchanges SET client_exchange_id = 'once' WHERE id = '{fence.exchange_id}'"
        )
    assert isinstance(caught.value.__cause__, sqlite3.IntegrityError)


@pytest.mark.parametrize("batches", [1, 8, 30])
async def test_a_killed_process_leaves_whole_batches_and_all_that_it_reported(path: Path, batches: int) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, endless_writer.__file__, str(path), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            for _ in range(batches):
                reported = int(await process.stdout.readline())
    finally:
        process.kill()
        rest, _ = await process.communicate()
    reported = int(rest.split()[-1]) if rest.split() else reported

    store = await SqliteStore.open(path, timeout_s=10)
    try:
        await consistent(store, reported)
    finally:
        await store.aclose()


async def consistent(store: SqliteStore, reported: int) -> None:
    """The endless writer's session is as some moment left it, at the earliest the one that it reported last."""
    session = await store.get_session("session")
    assert session is not None and session.next_rank == session.message_count >= reported
    assert await ranks(store, session.id) == list(range(session.next_rank))
    per_exchange = endless_writer.BATCH + 2
    ended, begun = divmod(session.next_rank, per_exchange)
    assert begun in (0, 1, 1 + endless_writer.BATCH)
    assert await store.session_state(session.id) == str(ended * per_exchange).encode()
    unended = [exchange.id for exchange in await store.running_exchanges()]
    assert unended == ([] if begun == 0 else [session.active_exchange_id])
    assert len(await store.last_exchanges(session.id, 10_000)) == ended * per_exchange
    assert [row[0] for row in await execute(store.writer, "PRAGMA integrity_check")] == ["ok"]
    await continued(store, session)


async def continued(store: SqliteStore, session: SessionRecord) -> None:
    """Go on as a new owner does: end what was running, then begin anew."""
    if session.active_exchange_id is not None:
        fence = Fence(session.id, session.active_exchange_id, session.next_rank)
        await store.append(fence, [answer()], an_end())
    await begin(store, session)
