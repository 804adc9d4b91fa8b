"""`GET /exchanges/{id}/checkpoint`: at which boundary an exchange was kept last, and never the state that was kept."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from services.mongodb import further_on_mongodb
from support.rest_client import error_of, rest
from support.running_server import running_server

Opened = Callable[[], AbstractAsyncContextManager[httpx.AsyncClient]]

AGENTS: list[dict[str, Any]] = [
    {"id": "scripted", "class_path": "support.fault_agents:Scripted"},
    {"id": "approved", "class_path": "support.fault_agents:Scripted", "require_approval": ["send"]},
]


@pytest.fixture
def opened(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Starts a server on the same data each time."""
    monkeypatch.chdir(tmp_path)

    @asynccontextmanager
    async def open_one() -> AsyncIterator[httpx.AsyncClient]:
        settings = {"store": {"url": store_url}}
        async with running_server(tmp_path, agents=AGENTS, settings=settings) as server, rest(server) as http:
            yield http

    return open_one


async def asked(http: httpx.AsyncClient, script: str, agent_id: str = "scripted") -> str:
    """The id of an exchange that has begun; it goes on without a client."""
    session = (await http.post("/sessions", json={"agent_id": agent_id})).json()
    async with http.stream("POST", f"/sessions/{session['id']}/messages", json={"content": script}):
        pass
    found = (await http.get(f"/sessions/{session['id']}/messages")).json()
    return str(found["messages"][0]["exchange_id"])


async def checkpoint(http: httpx.AsyncClient, exchange_id: str, kind: str) -> dict[str, Any]:
    """The envelope, once it is of this kind; it must have the contract's form."""
    async with asyncio.timeout(20):
        while True:
            response = await http.get(f"/exchanges/{exchange_id}/checkpoint")
            if response.status_code == 200 and response.json()["kind"] == kind:
                break
            await asyncio.sleep(0.02)
    envelope: dict[str, Any] = response.json()
    record = (await http.get(f"/exchanges/{exchange_id}")).json()
    assert set(envelope) - {"tool", "partial_output"} == {"version", "kind", "at", "exchange_id", "request_id"}
    assert envelope["version"] == 1 and envelope["exchange_id"] == exchange_id
    assert record["checkpoint"] == envelope and record["started_at"] <= envelope["at"]
    return envelope


async def until_status(http: httpx.AsyncClient, exchange_id: str, status: str) -> None:
    async with asyncio.timeout(20):
        while (await http.get(f"/exchanges/{exchange_id}")).json()["status"] != status:
            await asyncio.sleep(0.02)


async def test_a_pause_and_the_end_leave_their_envelopes(opened: Opened) -> None:
    async with opened() as http:
        exchange_id = await asked(http, "send mail | words 2 0", "approved")
        pending = await checkpoint(http, exchange_id, "approval_pending")
    async with opened() as http:
        assert await checkpoint(http, exchange_id, "approval_pending") == pending
        [request] = (await http.get(f"/exchanges/{exchange_id}")).json()["pending"]["requests"]
        decision = {name: request[name] for name in ("call_id", "args_sha256")} | {"action": "approve"}
        await http.post(f"/exchanges/{exchange_id}/resume", json={"payload": {"decisions": [decision]}})
        final = await checkpoint(http, exchange_id, "final_result")
        assert "partial_output" not in final and final["at"] > pending["at"]
    async with opened() as http:
        assert await checkpoint(http, exchange_id, "final_result") == final
        response = await http.post(f"/exchanges/{exchange_id}/resume", json={})
        assert error_of(response)["code"] == "checkpoint_missing", "there is no state behind it"


async def test_a_tool_that_has_ended_and_a_resumed_exchange_leave_their_envelopes(opened: Opened) -> None:
    async with opened() as http:
        first = await asked(http, "note a | hold 3 | words 2 0")
        assert (await checkpoint(http, first, "tool_completion"))["tool"] == "note"
    async with opened() as http:
        await until_status(http, first, "interrupted")
        left = (await http.get(f"/exchanges/{first}/checkpoint")).json()
        assert left["kind"] in ("tool_completion", "drained")
        async with http.stream("POST", f"/exchanges/{first}/resume", json={}) as response:
            assert response.status_code == 200
        session_id = (await http.get(f"/exchanges/{first}")).json()["session_id"]
        second = (await http.get(f"/sessions/{session_id}")).json()["active_exchange_id"]
        resumed = await checkpoint(http, second, "resume_request")
        assert resumed["at"] >= left["at"] and resumed["request_id"] != left["request_id"]
        assert (await http.get(f"/exchanges/{first}/checkpoint")).json() == left
        await checkpoint(http, second, "final_result")


async def test_the_envelope_of_an_interrupted_text_has_what_was_written(opened: Opened) -> None:
    async with opened() as http:
        exchange_id = await asked(http, "note a | words 5000 20")
        await checkpoint(http, exchange_id, "tool_completion")
        await asyncio.sleep(0.5)
    async with opened() as http:
        await until_status(http, exchange_id, "interrupted")
        left = await checkpoint(http, exchange_id, "drained")
        assert left["partial_output"].startswith("1 2 3 ")


@further_on_mongodb("store_url")
async def test_a_tool_at_work_leaves_its_envelope(opened: Opened) -> None:
    async with opened() as http:
        exchange_id = await asked(http, "pause 1 | words 2 0")
        assert (await checkpoint(http, exchange_id, "tool_call"))["tool"] == "pause"


@further_on_mongodb("store_url")
async def test_without_a_checkpoint_there_is_no_envelope(opened: Opened) -> None:
    async with opened() as http:
        response = await http.get(f"/exchanges/{await asked(http, 'hold 1')}/checkpoint")
        assert (response.status_code, error_of(response)["code"]) == (409, "checkpoint_missing")


@further_on_mongodb("store_url")
async def test_a_foreign_checkpoint_does_not_exist(opened: Opened) -> None:
    async with opened() as http:
        exchange_id = await asked(http, "send mail", "approved")
        await checkpoint(http, exchange_id, "approval_pending")
        for named in (exchange_id, "none"):
            response = await http.get(f"/exchanges/{named}/checkpoint", headers={"Authorization": "Bearer dev:bob"})
            assert (response.status_code, error_of(response)["code"]) == (404, "exchange_not_found")
