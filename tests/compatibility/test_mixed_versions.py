"""A rolling upgrade: a server of the release before beside one of today, on one MongoDB and one Redis.

The release runs from its own commit, which only a repository with its history has; elsewhere the tests are skipped, and
what is left is that today's server goes on with what that release has written (test_recorded_databases).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio
from compatibility.contents import ANN, SETTINGS, http_of, resume, write_files
from compatibility.record_databases import ROOT, release, unpack
from pymongo import AsyncMongoClient
from services.mongodb import ON_MONGODB, fresh_database, server_url
from services.redis import Redis
from support.chat_client import ChatClient, Event, chat, final_text, text_of
from support.server_process import PATIENCE_S, ServerProcess

from agentic_backend.stores.mongo.schema import MIGRATIONS

BEFORE = "fdf39ff20bb3fea2ebfd73043c41085cf1378d88"
COUNTED = 25
COUNTDOWN = ", ".join(map(str, range(COUNTED, -1, -1)))
# A machine that stands still for a second ends nobody's exchanges.
UNHURRIED = {**SETTINGS, "relay": {}}
pytestmark = [pytest.mark.mongodb, pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]


class Fleet(NamedTuple):
    tree: Path
    """The release before."""
    store: str
    broadcast: str
    servers: dict[str, ServerProcess]


class Mixed(NamedTuple):
    servers: dict[str, ServerProcess]
    clients: dict[str, ChatClient]


@pytest.fixture(scope="module", params=ON_MONGODB)
def mongodb_server(request: pytest.FixtureRequest) -> str:
    return server_url(request.param, request)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(mongodb_server: str, redis: Redis, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    """One for all: the `old` server has begun the database; the `new` one joins it."""
    try:
        tree = await asyncio.to_thread(unpack, BEFORE, tmp_path_factory.mktemp("tree"))
    except OSError as error:
        pytest.skip(f"the release before can't be had: {error}")
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(fresh_database(mongodb_server))
        fleet = Fleet(tree, store, redis.url, {})
        for name, code in (("old", tree), ("new", ROOT)):
            directory = tmp_path_factory.mktemp(name)
            write_files(directory, UNHURRIED)
            server = release(code, directory, store, broadcast=redis.url)
            fleet.servers[name] = await stack.enter_async_context(server)
        yield fleet


@pytest_asyncio.fixture(loop_scope="module")
async def mixed(fleet: Fleet) -> AsyncIterator[Mixed]:
    async with AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(chat(server.address, token=ANN))
            for name, server in fleet.servers.items()
        }
        yield Mixed(fleet.servers, clients)


BOTH_WAYS = pytest.mark.parametrize(("one", "other"), [("old", "new"), ("new", "old")])


@BOTH_WAYS
async def test_what_begins_on_one_is_followed_on_the_other(mixed: Mixed, one: str, other: str) -> None:
    began, follows = mixed.clients[one], mixed.clients[other]
    own_id = f"from-{one}"
    await began.send({"message": f"count down slowly from {COUNTED}", "client_exchange_id": own_id})
    seen = await began.until("delta")
    names = {"session_id": seen["session_id"], "exchange_id": seen["exchange_id"]}
    await follows.send({"type": "follow", **names})
    live = await follows.until("delta")
    assert live["exchange_id"] == seen["exchange_id"], "it is seen while it is written"
    # Sent again to the other one, the ask begins nothing.
    await follows.send({"message": f"count down slowly from {COUNTED}", "client_exchange_id": own_id})
    finals = [await client.until("final", exchange_id=seen["exchange_id"]) for client in (began, follows)]
    assert finals[0]["messages"] == finals[1]["messages"]
    assert text_of(finals[0]["messages"][-1]) == COUNTDOWN


@BOTH_WAYS
async def test_what_waits_on_one_is_decided_on_the_other_and_its_session_goes_on_there(
    mixed: Mixed, one: str, other: str
) -> None:
    await mixed.clients[one].send({"message": "go", "agent_id": "choosing"})
    waiting = await mixed.clients[one].until("awaiting_human")
    [request] = waiting["payload"]["requests"]
    await mixed.clients[other].send(resume(waiting, **{request["interrupt_id"]: "l"}))
    for client in mixed.clients.values():
        final = await client.until("final", exchange_id=waiting["exchange_id"])
        assert final_text([final]) == "You went l."
    for name in (one, other, one):
        asked = await mixed.clients[name].ask("again", session_id=waiting["session_id"], agent_id="echo")
        assert asked[-1]["status"] == "ok"


@BOTH_WAYS
async def test_what_one_runs_is_stopped_on_the_other(mixed: Mixed, one: str, other: str) -> None:
    await mixed.clients[one].send({"message": "hang after 20 tokens"})
    seen: Event = await mixed.clients[one].until("delta")
    await mixed.clients[other].send({"type": "stop", "session_id": seen["session_id"]})
    final = await mixed.clients[one].until("final", exchange_id=seen["exchange_id"])
    assert final["status"] == "stopped"


async def upgraded(store: str) -> None:
    """Wait until the new server has brought the old one's database up to date."""
    async with AsyncMongoClient[Event](store) as client, asyncio.timeout(PATIENCE_S):
        meta = client.get_default_database()["meta"]
        while (await meta.find_one({"_id": "schema"}) or {}).get("version") != len(MIGRATIONS):
            await asyncio.sleep(0.1)


async def check_memory(client: ChatClient, session_id: str) -> None:
    told = await client.ask("what do you remember?", session_id=session_id)
    assert told[-1]["status"] == "ok", told[-1]
    assert "under the mat" in final_text(told)


async def test_after_the_upgrade_the_release_before_can_come_back_and_drains_for_the_new_one(
    fleet: Fleet, mixed: Mixed, tmp_path: Path
) -> None:
    """A roll-back that is thought better of."""
    asked = await mixed.clients["old"].ask("remember that the key is under the mat")
    session_id = asked[0]["session_id"]
    await upgraded(fleet.store)
    write_files(tmp_path, UNHURRIED)
    async with release(fleet.tree, tmp_path, fleet.store, broadcast=fleet.broadcast) as back:
        async with chat(back.address, token=ANN) as client:
            await check_memory(client, session_id)
            await client.send({"message": f"count down slowly from {COUNTED}", "session_id": session_id})
            running = await client.until("delta")
            names = {"session_id": session_id, "exchange_id": running["exchange_id"]}
            await mixed.clients["new"].send({"type": "follow", **names})
            await mixed.clients["new"].until("delta", exchange_id=running["exchange_id"])
            assert await back.stop() == 0
    final = await mixed.clients["new"].until("final", exchange_id=running["exchange_id"])
    assert (final["status"], final_text([final])) == ("ok", COUNTDOWN)
    await check_memory(mixed.clients["new"], session_id)
    async with http_of(mixed.servers["new"].address) as http:
        page = (await http.get(f"/sessions/{session_id}/messages")).json()
    assert [message["rank"] for message in page["messages"]] == list(range(page["next_rank"]))
