"""The database or Redis goes away in the middle of exchanges and comes back: these end once, and nothing is lost."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from services.ferretdb import FerretDb
from support.durable_client import DurableClient
from support.fault_agents import notes, words
from support.figures import figure
from support.rest_client import rest
from support.server_process import ServerProcess, serving
from support.stored_session import StoredExchange, stored_session


@pytest.fixture
async def server(directory: Path, own_ferretdb: FerretDb) -> AsyncIterator[ServerProcess]:
    async with serving("--store", f"mongodb://127.0.0.1:{own_ferretdb.port}/chat", cwd=directory) as server:
        yield server


@pytest.mark.mongodb
async def test_the_database_goes_and_comes_back(server: ServerProcess, own_ferretdb: FerretDb, directory: Path) -> None:
    """One exchange writes a text meanwhile, one has a result to store, and one is asked for."""
    scripts = {
        "writing": "words 450 50",
        "storing": "words 60 50 | note a | words 100 50",
        "asking": "words 5 0",
    }
    clients = {name: DurableClient(lambda: server.address, user=name) for name in scripts}
    asking = {name: asyncio.create_task(clients[name].ask(scripts[name])) for name in ("writing", "storing")}
    while not all(clients[name].shown.writing for name in asking):
        await asyncio.sleep(0.01)
    await asyncio.to_thread(own_ferretdb.stop)
    away_at = time.monotonic()
    asking["asking"] = asyncio.create_task(clients["asking"].ask(scripts["asking"]))
    # An operation of the store has waited for it in vain.
    while "store_unavailable" not in clients["asking"].refused:
        await asyncio.sleep(0.01)
    await asyncio.to_thread(own_ferretdb.start)
    away_s = time.monotonic() - away_at
    back_at = time.monotonic()
    assert (await asking["asking"])["status"] == "ok"
    back_s = time.monotonic() - back_at
    finals = {name: await task for name, task in asking.items()}
    stored = {name: await as_stored(server, name, finals[name]["session_id"]) for name in scripts}
    for name, exchange in stored.items():
        assert (exchange.status, exchange.messages) == ("ok", finals[name]["messages"])
    assert (stored["writing"].answer, stored["storing"].answer) == (words(450), words(100))
    assert len(notes(directory)) == 1
    figure(
        f"database away for {away_s:.0f} s: asks answered {back_s:.1f} s after it was back, nothing lost; "
        f"what had something to store meanwhile ended as {finals['storing']['status']}"
    )


async def as_stored(server: ServerProcess, user: str, session_id: str) -> StoredExchange:
    """The exchange of a session as it is stored once its client has the final."""
    async with rest(server, f"dev:{user}") as http:
        [exchange] = await stored_session(http, session_id)
    return exchange
