"""The calls for all of a user's data: by the person themself, by admins, and by nobody else."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.chat_client import chat
from support.rest_client import PREFIX, rest
from support.running_server import RunningServer, running_server
from support.seeing_agent import ENTRY as SEEING
from support.test_agents import ENTRIES


@pytest.fixture(params=["sqlite", *ON_MONGODB])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with AsyncExitStack() as opened:
        settings: dict[str, Any] = {}
        if request.param != "sqlite":
            url = await opened.enter_async_context(fresh_database(server_url(request.param, request)))
            settings["store"] = {"url": url}
        yield await opened.enter_async_context(running_server(tmp_path, agents=[*ENTRIES, SEEING], settings=settings))


async def ask(server: RunningServer, message: str, token: str, agent_id: str = "echo") -> dict[str, Any]:
    async with chat(server.address, token=token) as client:
        return (await client.ask(message, agent_id=agent_id))[-1]


async def export(server: RunningServer, path: str, token: str | None = None) -> list[dict[str, Any]]:
    async with rest(server, token) as client:
        answer = await client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["cache-control"] == "no-store" and "attachment" in answer.headers["content-disposition"]
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_a_person_exports_and_deletes_their_own_data(server: RunningServer) -> None:
    for name in ("alice", "bob"):
        await ask(server, f"I am {name}", f"dev:{name}")
    lines = await export(server, "/me/export", "dev:alice")
    assert lines[0]["user_id"] == "alice" and lines[-1] == {"rows": len(lines) - 2}
    assert {"sessions", "exchanges", "messages", "kpi_records"} <= {line["table"] for line in lines[1:-1]}
    assert "echo: I am alice" in json.dumps(lines) and "bob" not in json.dumps(lines)

    async with rest(server, "dev:alice") as client:
        for _ in range(2):
            assert (await client.delete("/me")).status_code == 204
        assert (await client.get("/sessions")).json()["sessions"] == []
    assert (await export(server, "/me/export", "dev:alice"))[1:] == [{"rows": 0}]
    assert "echo: I am bob" in json.dumps(await export(server, "/me/export", "dev:bob"))


async def test_what_is_asked_during_a_deletion_is_refused_at_every_door(server: RunningServer) -> None:
    session_id = (await ask(server, "hello", "dev:bob"))["session_id"]
    async with rest(server, "dev:alice") as client:
        assert (await client.delete("/me")).status_code == 204
        opened = (await client.post("/sessions", json={"agent_id": "echo"})).json()
        refused = await client.post(f"/sessions/{opened['id']}/messages", json={"content": "hello"})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
        assert refused.json()["error"]["code"] == "rate_limited"
    async with chat(server.address, token="dev:alice") as client:
        for mode in ("chat", "query"):
            await client.send({"message": "hello", "agent_id": "echo", "mode": mode})
            assert (await client.until("error"))["code"] == "rate_limited"
    assert (await ask(server, "hello", "dev:bob"))["session_id"] != session_id


async def test_an_admin_exports_and_deletes_the_data_of_anybody_and_it_is_recorded(server: RunningServer) -> None:
    # Its graph keeps more than the transcript tells.
    await ask(server, "I am alice", "dev:alice", "seeing")
    lines = await export(server, "/admin/users/alice/export")
    assert "session_states" in {line.get("table") for line in lines}
    async with rest(server) as client:
        assert (await client.delete("/admin/users/alice")).status_code == 204
        reads = (await client.get("/admin/reads?subject=alice")).json()["reads"]
    calls = [f"DELETE {PREFIX}/admin/users/alice", f"GET {PREFIX}/admin/users/alice/export"]
    assert [read["path"] for read in reads] == calls
    assert (await export(server, "/admin/users/alice/export"))[1:] == [{"rows": 0}]


@pytest.mark.parametrize(("method", "path"), [("GET", "/admin/users/bob/export"), ("DELETE", "/admin/users/bob")])
async def test_nobody_else_may(server: RunningServer, method: str, path: str) -> None:
    await ask(server, "I am bob", "dev:bob")
    async with rest(server, "dev:alice") as client:
        refused = await client.request(method, path)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert "I am bob" in json.dumps(await export(server, "/me/export", "dev:bob"))
