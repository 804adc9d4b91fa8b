"""The stores under test. Another store joins the contract's tests by its line in STORES."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from services.mongo_java import MongoJava
from services.mongodb import ON_MONGODB, ON_PLANNING_MONGODB, fresh_database, server_url
from support.tcp_line import TcpLine, tcp_line

from agentic_backend.stores.base import Store
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.sqlite import SqliteStore

OpenStore = Callable[[], Awaitable[Store]]
OpenMongo = Callable[[], Awaitable[MongoStore]]
STORES = ["sqlite", *ON_MONGODB]
WITH_FEWER_STAGES = pytest.mark.parametrize("kind", [*STORES, *ON_PLANNING_MONGODB], indirect=True)
"""For what the store does otherwise where a server lacks stages of a pipeline."""


@pytest.fixture(autouse=True)
def no_blocking_calls() -> Iterator[None]:
    with blockbuster_ctx() as blocked:
        # A look at one file of the machine's when a client first connects.
        blocked.functions["os.stat"].can_block_in("pymongo/pool_options.py", {"get_container_env_info"})
        yield


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str | None:
    """The URL of MongoDB's server; None for SQLite."""
    return None if request.param == "sqlite" else server_url(request.param, request)


@pytest.fixture
async def open_store(kind: str | None, tmp_path: Path) -> AsyncIterator[OpenStore]:
    """Opens a store; called again, another instance on the same data."""
    async with AsyncExitStack() as opened:
        url = None if kind is None else await opened.enter_async_context(fresh_database(kind))

        async def open_() -> Store:
            store: SqliteStore | MongoStore
            if url is None:
                store = await SqliteStore.open(tmp_path / "store.db", timeout_s=10)
            else:
                store = await MongoStore.open(url, timeout_s=10)
            opened.push_async_callback(store.aclose)
            return store

        yield open_


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return await open_store()


@pytest.fixture
async def line(mongo_java: MongoJava) -> AsyncIterator[TcpLine]:
    """A line to the server, which the test may hold or cut."""
    async with tcp_line() as line:
        line.target = mongo_java.port
        yield line


@pytest.fixture
async def target(mongodb_url: str) -> AsyncIterator[MongoStore]:
    """A database that is copied to."""
    store = await MongoStore.open(mongodb_url, timeout_s=10)
    yield store
    await store.aclose()


@pytest.fixture
async def open_mongo(mongodb_url: str) -> AsyncIterator[OpenMongo]:
    """Opens the test's database; another instance each time, whose writers give up after no time at all."""
    opened: list[MongoStore] = []

    async def open_() -> MongoStore:
        opened.append(await MongoStore.open(mongodb_url, timeout_s=10))
        opened[-1].half_begun.writer_s = 0
        return opened[-1]

    yield open_
    for store in opened:
        await store.aclose()
