"""The servers that the faults happen to, each with the neighbours that its faults need."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from gameday.site import Site
from services.mcp_echo import EchoServer
from services.mongodb import fresh_database
from services.redis import Redis
from support.certificates import certificate
from support.fault_agents import MCP_ENTRY, write_catalog
from support.faulty_line import faulty_line
from support.providers.model_server import model_server
from support.refusing_mongodb import sign_in_line
from support.signing_realm import signing_realm
from support.skewed_clock import SkewedClock

from agentic_backend.stores.mongo import MongoStore

ASSISTANT = {"id": "assistant", "class_path": "agentic_backend.experts.assistant.assistant:Assistant"}
TOOL_TIMEOUT_S, MODEL_TIMEOUT_S, MODEL_TIMEOUT_IN_FULL_S = 2, 5, 75
GOOD, EXPIRED = "good.pem", "expired.pem"
_DISK = "size=64m,mode=700"
_OPEN_S = 90


@asynccontextmanager
async def alone(directory: Path, in_full: bool, mongodb: int) -> AsyncIterator[Site]:
    """On SQLite; where root may mount, on a disk of its own."""
    disk = directory / "disk"
    disk.mkdir()
    mounted = await asyncio.to_thread(succeeds, "mount", "-t", "tmpfs", "-o", _DISK, "tmpfs", disk)
    write_catalog(directory)
    try:
        async with model_server() as provider:
            site = Site(directory, in_full, provider, disk=disk if mounted else None)
            site.arguments = ["--data", site.data]
            async with site.running():
                yield site
    finally:
        if mounted:
            assert await asyncio.to_thread(succeeds, "umount", disk)


@asynccontextmanager
async def called(directory: Path, in_full: bool, mongodb: int) -> AsyncIterator[Site]:
    """On SQLite, with a provider of models and an MCP server that agents call."""
    mcp = EchoServer("streamable_http", "--open")
    await asyncio.to_thread(mcp.start)
    write_catalog(directory, ASSISTANT, MCP_ENTRY)
    try:
        async with model_server() as provider:
            site = Site(directory, in_full, provider, mcp=mcp)
            url = f'{{"echo": {{"transport": "streamable_http", "url": "http://127.0.0.1:{mcp.port}/mcp", '
            site.environment = {
                "AGENTIC_MCP_SERVERS": url + f'"connect_timeout_s": 2, "tool_timeout_s": {TOOL_TIMEOUT_S}}}}}',
                "AGENTIC_LIMITS__MODEL_TIMEOUT_S": str(MODEL_TIMEOUT_IN_FULL_S if in_full else MODEL_TIMEOUT_S),
            }
            async with site.running():
                yield site
    finally:
        await asyncio.to_thread(mcp.stop)


@asynccontextmanager
async def fleet(directory: Path, in_full: bool, mongodb: int) -> AsyncIterator[Site]:
    """An instance of several: on MongoDB, with a Redis."""
    redis = Redis(directory)
    await asyncio.to_thread(redis.start)
    write_catalog(directory)
    try:
        async with (
            model_server() as provider,
            sign_in_line(mongodb) as to_store,
            faulty_line(redis.port) as to_redis,
            database(mongodb) as url,
        ):
            site = Site(
                directory,
                in_full,
                provider,
                [
                    "--store",
                    to_store.url(url.rpartition("/")[2]),
                    "--broadcast",
                    f"redis://127.0.0.1:{to_redis.port}/0",
                ],
                {"AGENTIC_STORE__TIMEOUT_S": "4"},
                lines={"store": to_store, "broadcast": to_redis},
                clock=SkewedClock(directory / "clock", 0),
            )
            async with site.running():
                yield site
    finally:
        await asyncio.to_thread(redis.stop)


@asynccontextmanager
async def workers(directory: Path, in_full: bool, mongodb: int) -> AsyncIterator[Site]:
    """Two workers of one server."""
    redis = Redis(directory)
    await asyncio.to_thread(redis.start)
    write_catalog(directory)
    try:
        async with model_server() as provider, database(mongodb) as url:
            arguments = ["--store", url, "--broadcast", redis.url, "--workers", 2]
            async with Site(directory, in_full, provider, arguments, workers=2).running() as site:
                yield site
    finally:
        await asyncio.to_thread(redis.stop)


@asynccontextmanager
async def pair(directory: Path, in_full: bool, mongodb: int) -> AsyncIterator[Site]:
    """Two instances, each on an SQLite file of its own."""
    write_catalog(directory)
    async with model_server() as provider:
        peer = Site(directory, in_full, provider, ["--data", directory / "peer"])
        async with Site(directory, in_full, provider, ["--data", directory / "data"], peer=peer).running() as site:
            yield site


@asynccontextmanager
async def realm(directory: Path, in_full: bool, mongodb: int) -> AsyncIterator[Site]:
    """A server whose users sign in; the realm is reached over a line, with TLS."""
    write_catalog(directory)
    good, expired = certificate(directory / GOOD), certificate(directory / EXPIRED, is_expired=True)
    trusted = directory / "trusted.pem"
    trusted.write_bytes(good.read_bytes() + expired.read_bytes())
    async with (
        model_server() as provider,
        signing_realm() as keycloak,
        faulty_line(int(keycloak.url.split(":")[2].split("/")[0])) as line,
    ):
        await line.present(good)
        keycloak.url = keycloak.issuer = f"https://127.0.0.1:{line.port}/realms/{keycloak.url.rpartition('/')[2]}"
        environment = {"AGENTIC_AUTH__MODE": "keycloak", "AGENTIC_AUTH__KEYCLOAK__REALM_URL": keycloak.url}
        environment["SSL_CERT_FILE"] = str(trusted)
        site = Site(directory, in_full, provider, (), environment, token=keycloak.sign, lines={"realm": line})
        site.keycloak = keycloak
        async with site.running():
            yield site


@asynccontextmanager
async def rooted(directory: Path, in_full: bool, mongodb: int) -> AsyncIterator[Site]:
    """On SQLite, in the directory of the tests."""
    write_catalog(directory)
    async with model_server() as provider, Site(directory, in_full, provider).running() as site:
        yield site


SITES: dict[str, Callable[[Path, bool, int], AbstractAsyncContextManager[Site]]] = {
    "alone": alone,
    "called": called,
    "rooted": rooted,
    "fleet": fleet,
    "pair": pair,
    "workers": workers,
    "realm": realm,
}
"""Each with its directory, whether alerts are evaluated in full, and the port of the run's MongoDB."""
ON_MONGODB = {"fleet", "workers"}


@asynccontextmanager
async def database(mongodb: int) -> AsyncIterator[str]:
    """The URL of a new one that has its collections: a server gives up sooner than a cold MongoDB has made them."""
    async with fresh_database(f"mongodb://127.0.0.1:{mongodb}/") as url:
        store = await MongoStore.open(url, timeout_s=_OPEN_S)
        await store.aclose()
        yield url


def succeeds(*command: object) -> bool:
    """Whether a program of the machine's does what it is asked for."""
    program = shutil.which(str(command[0]))
    return program is not None and subprocess.run([program, *map(str, command[1:])], check=False).returncode == 0


def needed(path: Path | None) -> Path:
    """The disk. Skips the test where none can be mounted."""
    if path is None:
        pytest.skip("no file system can be mounted here")
    return path
