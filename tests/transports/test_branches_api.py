"""Forks over REST: what they answer, what the branch then has at each door, and who may ask for it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.chat_client import chat, final_text
from support.rest_client import error_of, messages_of, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES

from agentic_backend.client import connect


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=ENTRIES) as server:
        yield server


async def asked(server: RunningServer, message: str, session_id: str | None = None, token: str | None = None) -> str:
    """Ask the agent that says it back; the session's id."""
    async with chat(server.address, token=token) as client:
        events = await client.ask(message, agent_id="echo", session_id=session_id)
        assert final_text(events).endswith(message)
        found: str = events[0]["session_id"]
        return found


async def forked(http: httpx.AsyncClient, session_id: str, rank: int) -> dict[str, Any]:
    response = await http.post(f"/sessions/{session_id}/fork", json={"rank": rank})
    assert response.status_code == 201, response.text
    branch: dict[str, Any] = response.json()
    return branch


async def test_a_branch_has_the_messages_below_its_rank_and_goes_on_alone(server: RunningServer) -> None:
    root = await asked(server, "one")
    await asked(server, "two", root)
    async with rest(server) as http:
        branch = await forked(http, root, 2)
        assert branch["parent"] == {"session_id": root, "rank": 2} and branch["root_id"] == root
        assert (branch["next_rank"], branch["message_count"], branch["state"]) == (2, 2, "active")
        assert "lineage" not in branch
        await asked(server, "another", branch["id"])
        own, theirs = await messages_of(http, branch["id"]), await messages_of(http, root)
        assert own[:2] == theirs[:2] and [one["session_id"] for one in own] == [root] * 2 + [branch["id"]] * 2
        assert [one["parts"][0]["text"] for one in own if one["role"] == "user"] == ["one", "another"]
        for member in (root, branch["id"]):
            family = (await http.get(f"/sessions/{member}/branches")).json()["branches"]
            assert [one["id"] for one in family] == [root, branch["id"]]
        history = await http.get(f"/chatbot/session/{branch['id']}/history")
        assert len(history.json()) == 4
        assert (await http.delete(f"/sessions/{root}")).status_code == 204
        assert (await http.get(f"/sessions/{branch['id']}")).status_code == 404


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, "rank:"),
        ({"rank": None}, "rank:"),
        ({"rank": -1}, "rank:"),
        ({"rank": 1}, "rank:"),
        ({"rank": 3}, "rank:"),
        ({"rank": "0x"}, "rank:"),
        ({"rank": 10**30}, "rank:"),
        ({"rank": 0, "message": "hi"}, "message: unknown field"),
    ],
)
async def test_a_fork_that_names_no_place_is_refused(server: RunningServer, body: dict[str, Any], names: str) -> None:
    root = await asked(server, "one")
    async with rest(server) as http:
        response = await http.post(f"/sessions/{root}/fork", json=body)
        assert response.status_code == 400 and error_of(response)["content"].startswith(names)
        assert len((await http.get(f"/sessions/{root}/branches")).json()["branches"]) == 1


async def test_other_users_sessions_are_not_there(server: RunningServer) -> None:
    root = await asked(server, "one", token="dev:alice")
    async with rest(server, "dev:alice") as alice, rest(server, "dev:bob") as bob:
        branch = await forked(alice, root, 0)
        for session_id in (root, branch["id"], "nothing"):
            for refused in (
                await bob.post(f"/sessions/{session_id}/fork", json={"rank": 0}),
                await bob.get(f"/sessions/{session_id}/branches"),
            ):
                assert (refused.status_code, error_of(refused)["code"]) == (404, "session_not_found")
        assert (await bob.get("/sessions")).json() == {"sessions": []}


async def test_the_python_client_forks(server: RunningServer) -> None:
    async with connect(server.address) as client:
        exchange = client.ask("one", agent_id="echo")
        await exchange.answer()
        assert exchange.final is not None and exchange.final.session_id is not None
        root = exchange.final.session_id
        branch = await client.rest.fork(root, 0)
        assert (await client.ask_text("other", session_id=branch.id)).endswith("other")
        assert [one.id for one in await client.rest.branches(root)] == [root, branch.id]
        assert [message.rank async for message in client.rest.messages(branch.id)] == [0, 1]
