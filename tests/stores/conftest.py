"""The stores under test. Another store joins the contract's tests by its line in STORES."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from services.mongodb import ON_ANY_MONGODB_BY_DRIVER, ON_MONGODB_BY_DRIVER, fresh_database, server_url

from agentic_backend.stores.base import Store
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo.driver import Driver
from agentic_backend.stores.sqlite import SqliteStore

OpenStore = Callable[[], Awaitable[Store]]
OpenMongo = Callable[[], Awaitable[MongoStore]]
STORES = [pytest.param("sqlite", id="sqlite"), *ON_ANY_MONGODB_BY_DRIVER]
RACES = pytest.mark.parametrize("kind", ["sqlite", *ON_MONGODB_BY_DRIVER], indirect=True)
"""For what several clients change at once."""


@pytest.fixture(autouse=True)
def no_blocking_calls() -> Iterator[None]:
    with blockbuster_ctx() as blocked:
        # A look at one file of the machine's when a client first connects.
        blocked.functions["os.stat"].can_block_in("pymongo/pool_options.py", {"get_container_env_info"})
        yield


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> tuple[Driver, str] | None:
    """MongoDB's driver and server; None for SQLite."""
    if request.param == "sqlite":
        return None
    driver, server = request.param
    return driver, server_url(server, request)


@pytest.fixture
async def open_store(kind: tuple[Driver, str] | None, tmp_path: Path) -> AsyncIterator[OpenStore]:
    """Opens a store; called again, another instance on the same data."""
    async with AsyncExitStack() as opened:
        if kind is not None:
            driver, server = kind
            url = await opened.enter_async_context(fresh_database(server))

        async def open_() -> Store:
            store: SqliteStore | MongoStore
            if kind is None:
                store = await SqliteStore.open(tmp_path / "store.db", timeout_s=10)
            else:
                store = await MongoStore.open(url, driver=driver, timeout_s=10)
            opened.push_async_callback(store.aclose)
            return store

        yield open_


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return await open_store()


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
