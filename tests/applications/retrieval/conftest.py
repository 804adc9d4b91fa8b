"""Fixtures for the tests of the retrieval application."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from services.mongodb import FURTHER_ON_MONGODB, fresh_database, server_url
from support.collections_of_documents import BY_WORDS

from agentic_backend.applications.retrieval.application import Retrieval
from agentic_backend.testing import OpenedApplication, open_application

_numbers = count()


@pytest.fixture(params=["sqlite", *FURTHER_ON_MONGODB])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    async with fresh_database(server_url(request.param, request)) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[OpenedApplication[Retrieval]]:
    """One for the tests of a file."""
    async with open_application(Retrieval, BY_WORDS) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def ann(opened: OpenedApplication[Retrieval]) -> AsyncIterator[httpx.AsyncClient]:
    """The client of a user who has nothing yet."""
    async with opened.client(f"ann{next(_numbers)}") as client:
        yield client
