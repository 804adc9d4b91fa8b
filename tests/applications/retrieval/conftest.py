"""Fixtures for the tests of the retrieval application."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from services.mongodb import FURTHER_ON_MONGODB, fresh_database, server_url


@pytest.fixture(params=["sqlite", *FURTHER_ON_MONGODB])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    async with fresh_database(server_url(request.param, request)) as url:
        yield url
