"""Stores with the records of applications."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from services.mongodb import ON_MONGODB, fresh_database, server_url

from agentic_backend.stores.base import Store
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.sqlite import SqliteStore

OpenStore = Callable[[], Awaitable[Store]]


@pytest.fixture(params=["sqlite", *ON_MONGODB])
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenStore]:
    """Opens a store; called again, another instance on the same data."""
    async with AsyncExitStack() as opened:
        on_mongodb = request.param != "sqlite"
        url = await opened.enter_async_context(fresh_database(server_url(request.param, request))) if on_mongodb else ""

        async def open_() -> Store:
            store: SqliteStore | MongoStore
            if url:
                store = await MongoStore.open(url, timeout_s=10)
            else:
                store = await SqliteStore.open(tmp_path / "store.db", timeout_s=10)
            opened.push_async_callback(store.aclose)
            await store.open_application_records()
            return store

        yield open_


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return await open_store()
