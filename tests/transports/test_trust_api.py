"""The trust call: the owner's exchanges only, and nothing for what was never stored."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.chat_client import chat
from support.rest_client import rest
from support.running_server import FAST, RunningServer, running_server
from support.test_agents import ENTRIES


@pytest.fixture
async def server(store_url: str, tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=ENTRIES, settings={**FAST, "store": {"url": store_url}}) as server:
        yield server


async def test_an_answer_without_tools_rests_on_nothing(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as client, rest(server, "dev:alice") as calls:
        exchange_id = (await client.ask("hello", agent_id="echo"))[0]["exchange_id"]
        response = await calls.get(f"/exchanges/{exchange_id}/trust")
    assert response.status_code == 200, response.text
    found = response.json()
    assert (found["exchange_id"], found["status"], found["answer_rank"]) == (exchange_id, "ok", 1)
    assert (found["tools"], found["sources"], found["objections"], found["cut"]) == ([], [], [], False)


async def test_another_users_exchange_is_not_found(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as client:
        exchange_id = (await client.ask("hello", agent_id="echo"))[0]["exchange_id"]
    async with rest(server, "dev:bob") as calls:
        foreign = await calls.get(f"/exchanges/{exchange_id}/trust")
        unknown = await calls.get("/exchanges/no-such-exchange/trust")
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.json()["error"]["code"] == unknown.json()["error"]["code"] == "exchange_not_found"


async def test_a_query_leaves_nothing_to_summarise(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as client, rest(server, "dev:alice") as calls:
        exchange_id = (await client.ask("hello", agent_id="echo", mode="query"))[0]["exchange_id"]
        response = await calls.get(f"/exchanges/{exchange_id}/trust")
    assert response.status_code == 404
