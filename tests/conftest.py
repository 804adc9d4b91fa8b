"""What every test may use: a running server with the test agents, and services, each started once when it is needed."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from services.ferretdb import FerretDb, ferretdb_program
from services.keycloak import Keycloak, keycloak_distribution
from services.mongodb import ON_MONGODB, fresh_database, server_url
from services.redis import Redis
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=ENTRIES) as server:
        yield server


@pytest.fixture(scope="session")
def ferretdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FerretDb]:
    """For whoever doesn't stop it."""
    server = FerretDb(ferretdb_program(), tmp_path_factory.mktemp("ferretdb"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def own_ferretdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FerretDb]:
    """One that the test may stop and start."""
    server = FerretDb(ferretdb_program(), tmp_path_factory.mktemp("own-ferretdb"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def keycloak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keycloak]:
    """For whoever doesn't stop it, or starts it again."""
    server = Keycloak(keycloak_distribution(), tmp_path_factory.mktemp("keycloak"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """For whoever doesn't stop it."""
    server = Redis(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_url(redis: Redis) -> str:
    """The URL of a Redis that is empty."""
    with redis.client() as client:
        client.flushall()
    return redis.url


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[Redis]:
    """One that the test may stop and start."""
    server = Redis(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=ON_MONGODB)
def mongodb_server(request: pytest.FixtureRequest) -> str:
    return server_url(request.param, request)


@pytest.fixture
async def mongodb_url(mongodb_server: str) -> AsyncIterator[str]:
    """The URL of a database of the test's own."""
    async with fresh_database(mongodb_server) as url:
        yield url
