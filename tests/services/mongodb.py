"""MongoDB for tests: a fresh database for each, on FerretDB and, where `MONGODB_URL` names one, on that server too."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest
from pymongo import MongoClient
from services.ferretdb import FerretDb

_SERVERS = ("ferretdb", *(["given"] if "MONGODB_URL" in os.environ else []))
# FerretDB may have to be built first.
_MARKS = [pytest.mark.mongodb, pytest.mark.timeout(300)]

ON_MONGODB = [pytest.param(server, marks=_MARKS) for server in _SERVERS]
"""Parameters of a fixture that calls `server_url`, for what any driver does alike."""
ON_MONGODB_BY_DRIVER = [
    pytest.param((driver, server), marks=_MARKS, id=f"{driver}-{server}")
    for server in _SERVERS
    for driver in ("pymongo", "motor")
]


def server_url(server: str, request: pytest.FixtureRequest) -> str:
    """The URL of one of the servers, with no database in it."""
    if server == "given":
        return os.environ["MONGODB_URL"]
    ferretdb: FerretDb = request.getfixturevalue("ferretdb")
    return f"mongodb://127.0.0.1:{ferretdb.port}/"


@asynccontextmanager
async def fresh_database(server: str) -> AsyncIterator[str]:
    """The URL of a database on the server at `server` that nobody else has; it is dropped afterwards."""
    name, parts = f"test_{uuid4().hex}", urlsplit(server)
    if parts.username and "authsource" not in parts.query.lower():
        # Else the path would name the database that has the user.
        source = f"authSource={parts.path.strip('/') or 'admin'}"
        parts = parts._replace(query=f"{parts.query}&{source}" if parts.query else source)
    yield urlunsplit(parts._replace(path=f"/{name}"))
    await asyncio.to_thread(_drop, server, name)


def _drop(server: str, name: str) -> None:
    with MongoClient[dict[str, object]](server, serverSelectionTimeoutMS=5000) as client:
        client.drop_database(name)
