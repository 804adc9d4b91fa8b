"""What MongoStore says and does when its server is away, is slow, or has never been there."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager, suppress

import pytest
from services.ferretdb import FerretDb
from services.mongodb import fresh_database
from support.tcp_line import TcpLine, tcp_line

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.base import Fence, SessionChange
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.opening import CannotOpenStore, open_mongodb
from tests.stores.samples import a_session, an_end, answer, begin, fence_after

TIMEOUT_S = 2
# Less than a driver waits by itself for a server that is away.
PATIENCE_S = 20
pytestmark = [pytest.mark.mongodb, pytest.mark.timeout(300)]


@pytest.fixture
async def line(ferretdb: FerretDb) -> AsyncIterator[TcpLine]:
    async with tcp_line() as line:
        line.target = ferretdb.port
        yield line


@pytest.fixture
async def url(line: TcpLine, ferretdb: FerretDb) -> AsyncIterator[str]:
    """A database behind the line."""
    async with fresh_database(f"mongodb://127.0.0.1:{ferretdb.port}/") as url:
        yield url.replace(str(ferretdb.port), str(line.port))


@contextmanager
def in_a_hurry(store: MongoStore) -> Iterator[None]:
    """Only while the server is away: a busy machine takes its time to open a store and to find the server again."""
    store.driver._timeout_s = TIMEOUT_S
    yield
    store.driver._timeout_s = PATIENCE_S


async def check_away(store: MongoStore) -> None:
    """Every operation says so in its time."""
    with in_a_hurry(store):
        for operation in (store.get_session("any"), store.create_session(a_session()), store.delete_session("any")):
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(StoreUnavailable):
                    await operation


async def check_back(store: MongoStore) -> None:
    session = a_session()
    await store.create_session(session)
    assert await store.get_session(session.id) == session


async def comes_back(store: MongoStore) -> None:
    """What was begun while the server hung may come first."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(StoreUnavailable):
                return await check_back(store)


async def test_a_server_that_is_not_there_is_told_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    with pytest.raises(CannotOpenStore) as told:
        async with asyncio.timeout(PATIENCE_S):
            await open_mongodb(f"mongodb://ann:s3cret@127.0.0.1:{port}/chat?retryWrites=false", "pymongo", TIMEOUT_S)
    assert (
        str(told.value) == f"mongodb://127.0.0.1:{port}/chat: no server answers there ([Errno 111] Connection refused)"
    )
    assert [(record.message, vars(record)["operation"]) for record in caplog.records] == [("MongoDB failed", "open")]
    assert "s3cret" not in str([vars(record) for record in caplog.records])


async def test_a_server_that_says_nothing_is_told_at_the_start() -> None:
    # The kernel accepts its connections, and nobody reads them.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(CannotOpenStore, match="no server answers there"):
            await open_mongodb(f"mongodb://127.0.0.1:{port}", "pymongo", 1)


@pytest.mark.parametrize("url", ["mongodb://ann:s3cret@", "mongodb://a:b:s3cret@x:y/"])
async def test_a_wrong_url_is_told_without_its_password(url: str) -> None:
    with pytest.raises(CannotOpenStore) as told:
        await open_mongodb(url, "pymongo", TIMEOUT_S)
    assert "s3cret" not in str(told.value)


async def test_a_cut_line_is_told_in_time_and_mended_by_itself(
    line: TcpLine, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "agentic_backend")
    told: list[tuple[str, bool]] = []
    async with aclosing(
        await MongoStore.open(
            url,
            timeout_s=PATIENCE_S,
            observe=lambda operation, kind, duration_s, why: told.append((operation, why is None)),
        )
    ) as store:
        await check_back(store)
        await line.hold()
        await check_away(store)
        line.release()
        await check_back(store)
        names = ["create_session", "get_session"]
        away = [("get_session", False), ("create_session", False), ("delete_session", False)]
        there = [(name, True) for name in names]
        assert [each for each in told if each[0] != "open"] == [*there, *away, *there]
        failures = [record for record in caplog.records if record.name == "agentic_backend.stores.mongo"]
        assert len(failures) == 3


async def test_a_break_between_two_operations_is_not_noticed_by_a_read(line: TcpLine, url: str) -> None:
    async with aclosing(await MongoStore.open(url, timeout_s=PATIENCE_S)) as store:
        session = a_session()
        await store.create_session(session)
        await line.cut()
        assert await store.get_session(session.id) == session


async def test_a_server_that_hangs_is_told_in_time(own_ferretdb: FerretDb) -> None:
    async with aclosing(
        await MongoStore.open(f"mongodb://127.0.0.1:{own_ferretdb.port}/", timeout_s=PATIENCE_S)
    ) as store:
        await check_back(store)
        own_ferretdb.pause()
        await check_away(store)
        own_ferretdb.resume()
        await comes_back(store)


async def test_what_was_reported_is_there_after_the_server_was_killed(own_ferretdb: FerretDb) -> None:
    async with aclosing(
        await MongoStore.open(f"mongodb://127.0.0.1:{own_ferretdb.port}/", timeout_s=PATIENCE_S)
    ) as store:
        session = a_session()
        await store.create_session(session)
        fence = await begin(store, session)
        written = await store.append(fence, [answer("one")])
        await asyncio.to_thread(own_ferretdb.stop)
        fence = fence_after(written, fence.exchange_id)
        with in_a_hurry(store), pytest.raises(StoreUnavailable):
            await store.append(fence, [answer("lost")])
        await asyncio.to_thread(own_ferretdb.start)
        assert await store.get_session(session.id) == written.session
        await store.append(fence, [answer("two")], an_end())
        assert len(await store.messages_after(session.id, -1, 10)) == 3


async def test_changes_of_a_session_go_one_at_a_time_for_servers_that_need_it(ferretdb: FerretDb) -> None:
    """Straight to FerretDB, which changes a document in two steps: a new title takes no message back."""
    async with fresh_database(f"mongodb://127.0.0.1:{ferretdb.port}/") as url:
        async with aclosing(await MongoStore.open(url, timeout_s=10)) as store:
            session = a_session()
            await store.create_session(session)
            fence = await begin(store, session)

            async def rename() -> None:
                for number in range(60):
                    await store.change_session(session.id, SessionChange(title=f"title {number}"))

            async def write(fence: Fence) -> None:
                for number in range(40):
                    fence = fence_after(await store.append(fence, [answer(f"{number}")]), fence.exchange_id)

            await asyncio.gather(rename(), write(fence))
            stored = await store.get_session(session.id)
            assert stored is not None and (stored.next_rank, stored.title) == (41, "title 59")


async def test_callers_that_give_up_in_an_outage_leave_the_driver_whole(line: TcpLine, url: str) -> None:
    """PyMongo's client may keep a lock for good if what waits for a server is cancelled twice, as tasks may be."""
    async with aclosing(await MongoStore.open(url, timeout_s=PATIENCE_S)) as store:
        await store.create_session(a_session())
        # In a hurry until it is back, so that several operations are tried.
        with in_a_hurry(store):
            await line.hold()
            for _ in range(20):
                callers = [asyncio.create_task(store.get_session("any")) for _ in range(20)]
                # PyMongo looks for a server twice a second: some are cancelled while they take its lock again.
                await asyncio.sleep(0.1)
                for _ in range(3):
                    for caller in callers:
                        caller.cancel()
                    await asyncio.sleep(0)
                await asyncio.wait(callers)
            line.release()
            await comes_back(store)
