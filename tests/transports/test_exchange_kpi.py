"""What `GET /exchanges/{id}` tells of one exchange: its times, its calls of models and tools, their cost."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.chat_client import PATIENCE_S, ChatClient, Event, chat
from support.rest_client import error_of, rest
from support.running_server import FAST, RunningServer, running_server
from support.usage_agents import ENTRIES

from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.trail import TrailQuery, UsageRecord

PRICES = [
    {"model": "off*", "input_per_million": 1_000_000, "output_per_million": 2_000_000, "from": "2026-01-01"},
]
SETTINGS = {**FAST, "prices": PRICES, "titles": {"enabled": False}}


def settings_of(store_url: str, **more: Any) -> dict[str, Any]:
    return {**SETTINGS, "store": {"url": store_url}, **more}


@pytest.fixture
async def server(store_url: str, tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=ENTRIES, settings=settings_of(store_url)) as server:
        yield server


async def told(server: RunningServer, exchange_id: str) -> Event:
    async with rest(server, "dev:alice") as http:
        response = await http.get(f"/exchanges/{exchange_id}")
    assert response.status_code == 200, response.text
    found: Event = response.json()
    return found


async def kpi_of(server: RunningServer, event: Event) -> Event:
    kpi: Event = (await told(server, event["exchange_id"]))["kpi"]
    return kpi


async def waiting(client: ChatClient) -> Event:
    await client.send({"message": "call wait(seconds=0)", "agent_id": "approving"})
    return await client.until("awaiting_human")


async def approve(client: ChatClient, waiting: Event) -> Event:
    [request] = waiting["payload"]["requests"]
    decision = {"action": "approve", "call_id": request["call_id"], "args_sha256": request["args_sha256"]}
    named = {name: waiting[name] for name in ("session_id", "exchange_id")}
    await client.send({"type": "human_resume", **named, "payload": {"decisions": [decision], "answers": {}}})
    return await client.until("final")


async def test_an_exchange_tells_its_times_its_calls_and_what_they_cost(server: RunningServer, store: Store) -> None:
    async with chat(server.address, token="dev:alice") as client:
        final = (await client.ask("What is 17 * 23?"))[-1]
    kpi = await kpi_of(server, final)
    calls = (await store.trail(TrailQuery(UsageRecord, {"exchange_id": final["exchange_id"]}))).records
    assert {call.purpose for call in calls} == {"answer"}
    assert kpi["costs"] == [{"amount": pytest.approx(sum(call.cost or 0 for call in calls)), "currency": "USD"}]
    assert kpi["model_calls"] == len(calls) == 2
    assert {name: kpi[name] for name in ("input_tokens", "output_tokens")} == {
        name: final["usage"][name] for name in ("input_tokens", "output_tokens")
    }
    assert (kpi["tool_calls"], kpi["failed_tools"], kpi["other_calls"]) == (1, 0, [])
    assert 0 <= kpi["first_token_ms"] <= kpi["latency_ms"]
    assert kpi["instance"]
    assert "restore" not in kpi, "a session's first exchange has no past"


async def test_a_warm_agent_and_one_that_is_built_anew_are_told_apart(store_url: str, tmp_path: Path) -> None:
    settings, kpis = settings_of(store_url), []
    async with running_server(tmp_path, settings=settings) as server, chat(server.address, token="dev:alice") as client:
        session_id = (await client.ask("hello"))[-1]["session_id"]
        kpis.append(await kpi_of(server, (await client.ask("and now?", session_id=session_id))[-1]))
    async with running_server(tmp_path, settings=settings) as server, chat(server.address, token="dev:alice") as client:
        kpis.append(await kpi_of(server, (await client.ask("still there?", session_id=session_id))[-1]))
    assert [kpi["restore"] for kpi in kpis] == ["warm", "cold"]
    assert kpis[0]["instance"] != kpis[1]["instance"], "each start of a server is another instance"


async def test_an_exchange_that_waited_counts_the_calls_of_all_its_instances(store_url: str, tmp_path: Path) -> None:
    settings = settings_of(store_url)
    async with running_server(tmp_path, agents=ENTRIES, settings=settings) as server:
        async with chat(server.address, token="dev:alice") as client:
            before = await waiting(client)
        first = await kpi_of(server, before)
    assert (first["model_calls"], "latency_ms" in first, "instance" in first) == (1, False, False)
    async with running_server(tmp_path, agents=ENTRIES, settings=settings) as server:
        async with chat(server.address, token="dev:alice") as client:
            final = await approve(client, before)
        kpi = await kpi_of(server, final)
    assert (kpi["model_calls"], kpi["tool_calls"]) == (2, 1)
    assert kpi["input_tokens"] == final["usage"]["input_tokens"]
    assert kpi["first_token_ms"] <= kpi["latency_ms"]
    assert kpi["instance"]


async def test_a_waiting_exchange_that_is_stopped_has_no_instance(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as client:
        before = await waiting(client)
        await client.send({"type": "stop", "session_id": before["session_id"]})
        final = await client.until("final")
    kpi = await kpi_of(server, final)
    assert (final["status"], kpi["model_calls"], kpi["tool_calls"], kpi["failed_tools"]) == ("stopped", 1, 1, 1)
    assert "instance" not in kpi


async def test_a_running_exchange_tells_what_is_known_so_far(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as client:
        started = await client.running("count down slowly from 100", words=1)
        kpi = await kpi_of(server, started)
        assert kpi["instance"] and not {"latency_ms", "tool_calls", "restore"} & set(kpi)
        await client.send({"type": "stop", "session_id": started["session_id"]})
        stopped = await kpi_of(server, await client.until("final"))
    assert (stopped["model_calls"], stopped["tool_calls"]) == (1, 0)
    [cost] = stopped["costs"]
    assert cost["amount"] > 0 and cost["currency"] == "USD", "what was said before the stop costs, by an estimate"
    assert stopped["latency_ms"] >= stopped["first_token_ms"]
    assert stopped["instance"] == kpi["instance"]


async def test_calls_beside_the_answer_are_counted_apart(store_url: str, tmp_path: Path) -> None:
    settings = settings_of(store_url, titles={"enabled": True})
    async with running_server(tmp_path, agents=ENTRIES, settings=settings) as server:
        async with chat(server.address, token="dev:alice") as client:
            final = (await client.ask("hello", agent_id="aside"))[-1]
            await client.named(final["session_id"])
        async with asyncio.timeout(PATIENCE_S):
            # The records of titles are stored in the background.
            while len((kpi := await kpi_of(server, final))["other_calls"]) < 2:
                await asyncio.sleep(0.02)
    assert kpi["model_calls"] == 1
    assert [(each["purpose"], each["model_calls"]) for each in kpi["other_calls"]] == [("internal", 2), ("title", 1)]
    assert all(each["costs"][0]["amount"] > 0 for each in kpi["other_calls"])


async def test_its_user_reads_the_kpis_of_a_query_and_nobody_else(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as client:
        final = (await client.ask("What is 17 * 23?", mode="query"))[-1]
    async with asyncio.timeout(PATIENCE_S):
        # The records of its calls are stored in the background.
        while (await kpi_of(server, final))["model_calls"] < 2:
            await asyncio.sleep(0.02)
    found = await told(server, final["exchange_id"])
    assert (found["session_id"], found["status"], found["usage"]) == (None, "ok", final["usage"])
    assert (found["kpi"]["tool_calls"], found["kpi"]["costs"][0]["currency"]) == (1, "USD")
    assert not {"pending", "decisions", "checkpoint"} & set(found)
    async with rest(server, "dev:bob") as http:
        response = await http.get(f"/exchanges/{final['exchange_id']}")
    assert (response.status_code, error_of(response)["code"]) == (404, "exchange_not_found")


async def test_a_query_that_runs_is_not_found(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as client, rest(server, "dev:alice") as http:
        started = await client.running("count down slowly from 100", words=1, mode="query")
        assert (await http.get(f"/exchanges/{started['exchange_id']}")).status_code == 404


async def test_an_exchange_whose_session_is_deleted_is_not_found(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as client, rest(server, "dev:alice") as http:
        final = (await client.ask("hello"))[-1]
        assert (await http.delete(f"/sessions/{final['session_id']}")).status_code == 204
        assert (await http.get(f"/exchanges/{final['exchange_id']}")).status_code == 404
