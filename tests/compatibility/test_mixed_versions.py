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
from compatibility.contents import ANN, resume, write_files
from compatibility.record_databases import ROOT, release, unpack
from support.chat_client import ChatClient, Event, chat, final_text, text_of
from support.server_process import ServerProcess

BEFORE = "fdf39ff20bb3fea2ebfd73043c41085cf1378d88"
COUNTED = 60
pytestmark = [pytest.mark.mongodb, pytest.mark.timeout(300)]


class Mixed(NamedTuple):
    servers: dict[str, ServerProcess]
    clients: dict[str, ChatClient]


@pytest.fixture
async def mixed(mongodb_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[Mixed]:
    """The `old` server has begun the database; the `new` one joins it."""
    try:
        tree = await asyncio.to_thread(unpack, BEFORE, tmp_path / "tree")
    except OSError as error:
        pytest.skip(f"the release before can't be had: {error}")
    servers, clients = {}, {}
    async with AsyncExitStack() as stack:
        for name, code in (("old", tree), ("new", ROOT)):
            directory = tmp_path / name
            directory.mkdir()
            write_files(directory)
            server = await stack.enter_async_context(release(code, directory, mongodb_url, broadcast=redis_url))
            servers[name] = server
            clients[name] = await stack.enter_async_context(chat(server.address, token=ANN))
        yield Mixed(servers, clients)


BOTH_WAYS = pytest.mark.parametrize(("one", "other"), [("old", "new"), ("new", "old")])


@BOTH_WAYS
async def test_what_begins_on_one_is_followed_on_the_other(mixed: Mixed, one: str, other: str) -> None:
    began, follows = mixed.clients[one], mixed.clients[other]
    await began.send({"message": f"count down slowly from {COUNTED}", "client_exchange_id": "mine"})
    seen = await began.until("delta")
    names = {"session_id": seen["session_id"], "exchange_id": seen["exchange_id"]}
    await follows.send({"type": "follow", **names})
    live = await follows.until("delta")
    assert live["exchange_id"] == seen["exchange_id"], "it is seen while it is written"
    # Sent again to the other one, the ask begins nothing.
    await follows.send({"message": f"count down slowly from {COUNTED}", "client_exchange_id": "mine"})
    finals = [await client.until("final", exchange_id=seen["exchange_id"]) for client in (began, follows)]
    assert finals[0]["messages"] == finals[1]["messages"]
    assert text_of(finals[0]["messages"][-1]) == ", ".join(map(str, range(COUNTED, -1, -1)))


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
