"""What the tests of the transports may use: a tool that is held, and a realm that signs tokens."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support import wire_agents
from support.held_agents import Hold
from support.running_server import RunningServer, running_server
from support.signing_realm import SigningRealm, signing_realm
from support.test_agents import ENTRIES

from agentic_backend.stores.base import Store
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.sqlite import SqliteStore


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hold]:
    """Holds the tool of the agent `unmoved` until the test releases it, or ends."""
    hold = Hold(ignores_cancel=True)
    monkeypatch.setattr(wire_agents, "unmoved", hold)
    yield hold
    hold.released.set()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    """One for the tests of a file that change nothing of it, and look at nothing that others have done there.

    Such tests are marked `asyncio(loop_scope="module")`.
    """
    async with running_server(tmp_path_factory.mktemp("server"), agents=ENTRIES) as server:
        yield server


@pytest.fixture
async def realm() -> AsyncIterator[SigningRealm]:
    async with signing_realm() as realm:
        yield realm


@pytest.fixture(params=["sqlite", *ON_MONGODB])
async def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a database of each kind, for a server of the test's own."""
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path / 'chat.sqlite3'}"
    else:
        async with fresh_database(server_url(request.param, request)) as url:
            yield url


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    """The database at `store_url`."""
    mongodb = store_url.startswith("mongodb")
    store: Store = (
        await MongoStore.open(store_url, timeout_s=10)
        if mongodb
        else await SqliteStore.open(Path(store_url.removeprefix("sqlite:")), timeout_s=10)
    )
    yield store
    await store.aclose()
