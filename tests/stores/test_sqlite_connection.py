"""What a connection promises: calls in order, each over when it returns or raises, and errors under one name."""

import asyncio
import gc
import logging
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from agentic_backend.errors import RateLimited, StoreUnavailable
from agentic_backend.stores.base import took_too_long
from agentic_backend.stores.sqlite.connection import SqliteConnection
from tests.stores.samples import ENDLESS


@asynccontextmanager
async def opened(path: Path, timeout_s: float = 5) -> AsyncIterator[SqliteConnection]:
    async with aclosing(await SqliteConnection.open(path, timeout_s=timeout_s)) as connection:
        yield connection


@contextmanager
def in_a_hurry(connection: SqliteConnection, timeout_s: float = 1) -> Iterator[None]:
    """Only for the calls that shall be late; even then there is time for a thread to begin on a busy machine."""
    connection._timeout_s = timeout_s
    yield
    connection._timeout_s = 5


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncIterator[SqliteConnection]:
    async with opened(tmp_path / "test.db") as connection:
        await connection.write("create", add_table)
        yield connection


def add_table(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")


def add(db: sqlite3.Connection, number: int) -> None:
    db.execute("INSERT INTO numbers VALUES (?)", (number,))


def numbers(db: sqlite3.Connection) -> list[int]:
    return [row["n"] for row in db.execute("SELECT n FROM numbers ORDER BY n")]


async def test_the_pragmas_are_set(connection: SqliteConnection) -> None:
    async def pragma(name: str) -> object:
        return await connection.read("pragma", lambda db: db.execute(f"PRAGMA {name}").fetchone()[0])

    assert await pragma("journal_mode") == "wal"
    assert await pragma("synchronous") == 1
    assert await pragma("foreign_keys") == 1
    assert await pragma("busy_timeout") == 1


async def test_a_write_that_raises_is_rolled_back(connection: SqliteConnection) -> None:
    def work(db: sqlite3.Connection) -> None:
        add(db, 1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await connection.write("add", work)
    assert await connection.read("numbers", numbers) == []
    assert not await connection.read("state", lambda db: db.in_transaction)


def told_of(record: logging.LogRecord) -> tuple[str, str, str]:
    """The event, the operation and the reason of a log record."""
    return record.getMessage(), vars(record)["operation"], vars(record)["reason"]


async def test_an_error_of_sqlite_is_logged_by_its_name_only(
    connection: SqliteConnection, caplog: pytest.LogCaptureFixture
) -> None:
    def work(db: sqlite3.Connection) -> None:
        add(db, 2)
        db.execute("INSERT INTO numbers VALUES ('secret')")

    with caplog.at_level(logging.DEBUG, "agentic_backend"), pytest.raises(StoreUnavailable) as caught:
        await connection.write("add", work)
    assert caught.value.content == StoreUnavailable.default
    assert isinstance(caught.value.__cause__, sqlite3.Error)
    [record] = caplog.records
    assert (record.name, record.levelname) == ("agentic_backend.stores.sqlite", "WARNING")
    assert told_of(record) == ("SQLite failed", "add", "SQLITE_MISMATCH")
    assert "secret" not in str(vars(record))
    assert await connection.read("numbers", numbers) == []


async def test_a_full_disk_is_logged_once_however_many_writes_wait(
    connection: SqliteConnection, caplog: pytest.LogCaptureFixture
) -> None:
    def fill(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE filling AS SELECT zeroblob(1000000)")

    # As if the disk had room for the pages that are there.
    await connection.read("limit", lambda db: db.execute("PRAGMA max_page_count = 1").fetchall())
    writes = [connection.write("fill", fill) for _ in range(5)]
    assert [type(one) for one in await asyncio.gather(*writes, return_exceptions=True)] == [StoreUnavailable] * 5
    assert [record.getMessage() for record in caplog.records] == ["SQLite failed", "database takes no writes"]


async def test_parameters_never_reach_a_log(connection: SqliteConnection, caplog: pytest.LogCaptureFixture) -> None:
    """aiosqlite logs each call that it runs, at debug level."""
    with caplog.at_level(logging.DEBUG):
        await connection.write("add", lambda db: add(db, 424242))
    assert caplog.records
    assert "424242" not in caplog.text


@pytest.mark.parametrize("kind", ["read", "write"])
async def test_a_call_out_of_time_is_interrupted(tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(tmp_path / "test.db") as connection:
        call = connection.read if kind == "read" else connection.write
        with in_a_hurry(connection), pytest.raises(StoreUnavailable) as caught:
            await call("count", lambda db: db.execute(ENDLESS).fetchone())
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert list(map(told_of, caplog.records)) == [("SQLite failed", "count", "SQLITE_INTERRUPT")]
        await connection.write("create", add_table)


async def test_what_may_read_much_and_is_out_of_time_is_no_store_that_is_away(tmp_path: Path) -> None:
    told: list[tuple[str, bool]] = []
    connection = await SqliteConnection.open(
        tmp_path / "test.db",
        timeout_s=5,
        observe=lambda operation, kind, duration_s, why: told.append((operation, why is None)),
        late=took_too_long,
    )
    try:
        for _ in range(2):
            with in_a_hurry(connection, 0.2), pytest.raises(RateLimited) as caught:
                await connection.read("search", lambda db: db.execute(ENDLESS).fetchone())
            assert caught.value.retry_after_s
        assert told == [("search", True)] * 2
        with pytest.raises(StoreUnavailable):
            await connection.read("search", lambda db: db.execute("SELECT * FROM nothing"))
    finally:
        await connection.aclose()


async def test_a_write_out_of_time_is_not_committed(tmp_path: Path) -> None:
    """Not either where its last statement has done its work."""
    reached, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(db: sqlite3.Connection) -> None:
        add(db, 1)
        loop.call_soon_threadsafe(reached.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()

    async with opened(tmp_path / "test.db") as connection:
        await connection.write("create", add_table)
        with in_a_hurry(connection):
            writing = asyncio.ensure_future(connection.write("add", work))
            await reached.wait()
        await asyncio.sleep(1.2)
        assert not writing.done()
        go_on.set()
        with pytest.raises(StoreUnavailable):
            await writing
        assert await connection.read("numbers", numbers) == []


@pytest.mark.parametrize("kind", ["read", "write"])
async def test_a_call_that_waits_its_turn_too_long_never_runs(tmp_path: Path, kind: str) -> None:
    ran: list[sqlite3.Connection] = []
    async with opened(tmp_path / "test.db") as connection:
        call = connection.read if kind == "read" else connection.write
        reached, loop = asyncio.Event(), asyncio.get_running_loop()

        def count(db: sqlite3.Connection) -> object:
            loop.call_soon_threadsafe(reached.set)
            return db.execute(ENDLESS).fetchone()

        with in_a_hurry(connection, 2):
            counting = asyncio.ensure_future(connection.read("count", count))
            await reached.wait()
        with in_a_hurry(connection, 0.2), pytest.raises(StoreUnavailable) as late:
            await call("append", ran.append)
        assert isinstance(late.value.__cause__, TimeoutError)
        with pytest.raises(StoreUnavailable):
            await counting
        assert await connection.read("barrier", lambda db: 1) == 1
    assert ran == []


async def test_a_cancelled_call_is_over_when_it_raises(
    connection: SqliteConnection, caplog: pytest.LogCaptureFixture
) -> None:
    reached = asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(db: sqlite3.Connection) -> None:
        add(db, 1)
        loop.call_soon_threadsafe(reached.set)
        db.execute(ENDLESS).fetchone()

    writing = asyncio.ensure_future(connection.write("add", work))
    await reached.wait()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert not await connection.read("state", lambda db: db.in_transaction)
    assert await connection.read("numbers", numbers) == []
    # asyncio reports an outcome that nobody has looked at when it is collected.
    del writing
    gc.collect()
    assert caplog.messages == []


async def test_a_call_cancelled_twice_is_rolled_back_all_the_same(connection: SqliteConnection) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(db: sqlite3.Connection) -> None:
        add(db, 1)
        loop.call_soon_threadsafe(reached.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()

    writing = asyncio.ensure_future(connection.write("add", work))
    await reached.wait()
    for _ in range(2):
        writing.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await writing
    go_on.set()
    assert await connection.read("numbers", numbers) == []


async def test_a_thread_that_never_answers_holds_nobody_for_long(tmp_path: Path) -> None:
    """As with a file system that hangs: the caller is told, and the thread goes on when it can."""
    go_on = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with opened(tmp_path / "test.db") as connection:
        with in_a_hurry(connection, 0.1), pytest.raises(StoreUnavailable) as caught:
            await connection.read("wait", lambda db: asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result())
        assert isinstance(caught.value.__cause__, TimeoutError)
        go_on.set()
        assert await connection.read("again", lambda db: 1) == 1


async def test_a_lock_of_another_connection_is_waited_for(tmp_path: Path) -> None:
    """Longer than one attempt takes, so that the transaction is begun more than once."""
    path = tmp_path / "test.db"
    async with opened(path) as connection, opened(path) as other:
        await connection.write("create", add_table)
        await other.read("lock", lambda db: db.execute("BEGIN IMMEDIATE") and None)
        writing = asyncio.ensure_future(connection.write("add", lambda db: add(db, 1)))
        await asyncio.sleep(0.5)
        assert not writing.done()
        await other.read("unlock", lambda db: db.rollback())
        await writing
        assert await other.read("numbers", numbers) == [1]


async def test_a_file_that_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        await SqliteConnection.open(tmp_path / "missing" / "test.db", timeout_s=1)
    await asyncio.to_thread((tmp_path / "text.db").write_text, "This is no database." * 100)
    with pytest.raises(StoreUnavailable):
        await SqliteConnection.open(tmp_path / "text.db", timeout_s=1)
