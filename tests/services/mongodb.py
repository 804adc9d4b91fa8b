"""MongoDB for tests: a fresh database for each test, on stand-ins or on the server that `MONGODB_URL` names.

mongo-java-server changes a document atomically, as MongoDB does. FerretDB does not, but it plans queries as MongoDB
does, and its data survive a kill.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest
from pymongo import MongoClient

_GIVEN = "given" if "MONGODB_URL" in os.environ else None
_ATOMIC, _PLANNING = _GIVEN or "mongo_java", _GIVEN or "ferretdb"
# They may have to be built first.
_MARKS = [pytest.mark.mongodb, pytest.mark.timeout(300)]

ON_MONGODB = [pytest.param(_ATOMIC, marks=_MARKS)]
"""Parameters of a fixture that calls `server_url`, for most tests."""
FURTHER_ON_MONGODB = [pytest.param(_ATOMIC, marks=[*_MARKS, pytest.mark.further])]
"""The same, for tests of what is above the stores, which `further_on_mongodb` marks."""
ON_PLANNING_MONGODB = [pytest.param(_PLANNING, marks=_MARKS)]
"""The same, for tests of query plans, and of what the store does where a server knows fewer stages of a pipeline."""


def further_on_mongodb(fixture: str) -> pytest.MarkDecorator:
    """Has a test run on SQLite every time, and on MongoDB as a `further` case. `fixture` is the one with the store."""
    return pytest.mark.parametrize(fixture, ["sqlite", *FURTHER_ON_MONGODB], indirect=True)


def server_url(server: str, request: pytest.FixtureRequest) -> str:
    """The URL of one of the servers, without a database."""
    if server == "given":
        return os.environ["MONGODB_URL"]
    stand_in: Any = request.getfixturevalue(server)
    return f"mongodb://127.0.0.1:{stand_in.port}/"


@asynccontextmanager
async def fresh_database(server: str) -> AsyncIterator[str]:
    """The URL of a new database on the server at `server`; it is dropped afterwards."""
    name, parts = f"test_{uuid4().hex}", urlsplit(server)
    if parts.username and "authsource" not in parts.query.lower():
        # Without `authSource` the path would name the user's database.
        source = f"authSource={parts.path.strip('/') or 'admin'}"
        parts = parts._replace(query=f"{parts.query}&{source}" if parts.query else source)
    yield urlunsplit(parts._replace(path=f"/{name}"))
    await asyncio.to_thread(_drop, server, name)


def _drop(server: str, name: str) -> None:
    with MongoClient[dict[str, object]](server, serverSelectionTimeoutMS=5000) as client:
        client.drop_database(name)
