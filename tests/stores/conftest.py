"""The stores under test. Another store joins the contract's tests by its line in MAKERS."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from agentic_backend.stores.base import Store
from agentic_backend.stores.sqlite import SqliteStore

OpenStore = Callable[[], Awaitable[Store]]


async def open_sqlite(directory: Path) -> Store:
    return await SqliteStore.open(directory / "store.db", timeout_s=10)


MAKERS = {"sqlite": open_sqlite}


@pytest.fixture(autouse=True)
def no_blocking_calls() -> Iterator[None]:
    with blockbuster_ctx():
        yield


@pytest.fixture(params=MAKERS)
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenStore]:
    """Opens a store; called again, another instance on the same data."""
    async with AsyncExitStack() as opened:

        async def open_() -> Store:
            store = await MAKERS[request.param](tmp_path)
            opened.push_async_callback(store.aclose)
            return store

        yield open_


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return await open_store()
