"""Fixtures for every test: a running server with the test agents, and services, each started once on first use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from services.ferretdb import FerretDb
from services.keycloak import Keycloak
from services.mongo_java import MongoJava
from services.mongodb import ON_MONGODB, fresh_database, server_url
from services.redis import Redis
from services.shared import shared

if TYPE_CHECKING:
    from support.running_server import RunningServer

# On a busy machine the duration of an example means nothing.
settings.register_profile("agentic-backend", deadline=None)
settings.load_profile("agentic-backend")

pytest_plugins = [
    "support.lanes",
    "support.further_cases",
    "support.threads",
    "support.skips",
    "support.second_look",
    "support.minutes",
    "support.figures",
]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    # Here: to import the product takes two seconds, and many tests need little of it.
    from support.running_server import running_server
    from support.test_agents import ENTRIES

    async with running_server(tmp_path, agents=ENTRIES) as server:
        yield server


@pytest.fixture(scope="session")
def mongo_java() -> MongoJava:
    """Shared by all tests; each test has its own database."""
    return shared("mongo-java", lambda _: MongoJava())


@pytest.fixture(scope="session")
def ferretdb() -> FerretDb:
    """Shared by tests that don't stop it; each test has its own database."""
    return shared("ferretdb", FerretDb)


@pytest.fixture
def own_ferretdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FerretDb]:
    """One that the test may stop and start."""
    server = FerretDb(tmp_path_factory.mktemp("own-ferretdb"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def keycloak() -> Keycloak:
    """Shared by tests that don't stop it."""
    return shared("keycloak", Keycloak)


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """For tests that don't stop it; each lane has its own, which a test may empty."""
    server = Redis(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_url(redis: Redis) -> str:
    """The URL of an empty Redis."""
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
    """The URL of a database for this test alone."""
    async with fresh_database(mongodb_server) as url:
        yield url
