"""The metrics as a scraper reads them: each counts what it says, while it happens and when it is over."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.chat_client import PATIENCE_S, chat
from support.rest_client import plain_http
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES

from agentic_backend.config.topics.limits import LimitsSettings

OFFLINE = {
    "gen_ai_operation_name": "chat",
    "gen_ai_provider_name": "offline",
    "gen_ai_request_model": "offline",
}


async def samples(server: RunningServer, name: str) -> list[tuple[dict[str, str], float]]:
    """The labels and values of `/metrics` by this name."""
    async with plain_http() as client:
        response = await client.get(f"{server.internal}/metrics")
    assert response.status_code == 200
    families = text_string_to_metric_families(response.text)
    return [(one.labels, one.value) for family in families for one in family.samples if one.name == name]


async def sample(server: RunningServer, name: str, **labels: str) -> float:
    """The value of a sample of `/metrics`; 0 where there is none."""
    return sum(value for found, value in await samples(server, name) if found == labels)


async def becomes(server: RunningServer, value: float, name: str, **labels: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await sample(server, name, **labels) != value:
            await asyncio.sleep(0.01)


@pytest.fixture
async def small_server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server that keeps two agents."""
    async with running_server(tmp_path, agents=ENTRIES, settings={"agents": {"cache_size": 2}}) as server:
        yield server


async def test_exchanges_are_counted_by_agent_and_status(server: RunningServer) -> None:
    async with chat(server.address) as client:
        for _ in range(3):
            await client.ask("hello", agent_id="echo")
        await client.ask("hello", agent_id="echo", mode="query")
        await client.ask("hello", agent_id="raising")
        await client.send({"message": "hang forever"})
        started = await client.until("started")
        await client.send({"type": "stop", "session_id": started["session_id"]})
        await client.until("final")
    for agent_id, status, count in [("echo", "ok", 4), ("raising", "error", 1), ("assistant", "stopped", 1)]:
        await becomes(server, count, "chat_exchange_total", agent_id=agent_id, status=status)
        assert await sample(server, "chat_exchange_duration_seconds_count", agent_id=agent_id) == count


async def test_what_is_refused_is_no_exchange(server: RunningServer) -> None:
    async with chat(server.address) as client:
        for agent_id in ("nobody", "no-such-class"):
            [refusal] = await client.ask("hello", agent_id=agent_id)
            assert refusal["type"] == "error"
            assert await sample(server, "chat_exchange_total", agent_id=agent_id, status="error") == 0
    assert await sample(server, "chat_running_exchanges") == 0


async def test_the_first_token_has_its_time_only_where_there_is_one(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.ask("my name is Zorblax")
        await client.ask("fail at once")
    assert await sample(server, "chat_time_to_first_token_seconds_count", agent_id="assistant") == 1
    assert await sample(server, "chat_exchange_duration_seconds_count", agent_id="assistant") == 2


async def test_what_runs_and_who_is_connected_is_seen_while_it_lasts(server: RunningServer) -> None:
    async with chat(server.address) as client, chat(server.address) as other:
        await becomes(server, 2, "chat_open_sockets")
        await client.send({"message": "hang forever"})
        await client.until("started")
        await other.send({"message": "hello", "agent_id": "asking"})
        waiting = await other.until("awaiting_human")
        await becomes(server, 1, "chat_running_exchanges")
        assert await sample(server, "chat_exchange_pauses_total", agent_id="asking") == 1
        await other.send({"type": "stop", "session_id": waiting["session_id"]})
        await other.until("final")
        assert await sample(server, "chat_exchange_total", agent_id="asking", status="stopped") == 1
        assert await sample(server, "chat_running_exchanges") == 1
    await becomes(server, 0, "chat_open_sockets")
    assert await sample(server, "chat_running_exchanges") == 1, "an exchange does not end with its socket"


async def test_limits_and_faults_of_the_catalog_are_there_to_compare_with(server: RunningServer) -> None:
    assert await sample(server, "chat_running_limit") == LimitsSettings().max_running
    # `no-such-class` of the test agents.
    assert await sample(server, "chat_catalog_problems") == 1
    async with plain_http() as http:
        lines = (await http.get(f"{server.internal}/metrics")).text.splitlines()
    assert [line.endswith(" 1.0") for line in lines if line.startswith("chat_instance_info{instance=")] == [True]


async def test_what_waits_is_counted_in_the_store(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "hello", "agent_id": "asking"})
        waiting = await client.until("awaiting_human")
        await becomes(server, 1, "chat_waiting_exchanges")
        assert await sample(server, "chat_oldest_waiting_seconds") > 0
        await client.send({"type": "stop", "session_id": waiting["session_id"]})
        await client.until("final")
        await becomes(server, 0, "chat_waiting_exchanges")
    assert await sample(server, "chat_oldest_waiting_seconds") == 0


async def test_an_agent_that_cannot_start_leaves_nothing_running(server: RunningServer) -> None:
    async with chat(server.address) as client:
        for agent_id in ("fails-in-init", "no-messages"):
            events = await client.ask("hello", agent_id=agent_id)
            assert events[-1]["error"]["code"] == "agent_unavailable"
            await becomes(server, 1, "chat_exchange_total", agent_id=agent_id, status="error")
    await becomes(server, 0, "chat_running_exchanges")


async def test_hits_misses_and_evictions_of_the_agent_cache_are_counted(small_server: RunningServer) -> None:
    async with chat(small_server.address) as client:
        sessions = [(await client.ask("hello", agent_id="echo"))[0]["session_id"] for _ in range(3)]
        for session_id in sessions[1:]:
            await client.ask("again", session_id=session_id)
        await client.ask("again", session_id=sessions[0])
        await client.ask("hello", agent_id="echo", mode="query")
    await becomes(small_server, 2, "chat_agent_evictions_total")
    assert await sample(small_server, "chat_agent_cache_total", outcome="hit") == 2
    assert await sample(small_server, "chat_agent_cache_total", outcome="miss") == 4


async def test_the_agents_in_memory_are_counted(small_server: RunningServer) -> None:
    async with chat(small_server.address) as client, plain_http(base_url=small_server.address) as http:
        sessions = [(await client.ask("hello", agent_id="echo"))[0]["session_id"] for _ in range(4)]
        await client.ask("hello", agent_id="fails-in-init")
        await becomes(small_server, 2, "chat_cached_agents", agent_id="echo")
        for session_id, left in zip(sessions[2:], (1, 0), strict=True):
            assert (await http.delete(f"/agentic/v1/sessions/{session_id}")).status_code == 204
            assert await sample(small_server, "chat_cached_agents", agent_id="echo") == left


async def test_calls_of_models_are_counted_after_the_conventions(server: RunningServer) -> None:
    async with chat(server.address) as client:
        # A query gets no title, which would be a call too.
        await client.ask("my name is Zorblax", mode="query")
    await becomes(server, 1, "gen_ai_client_operation_duration_seconds_count", **OFFLINE, error_type="")
    assert await sample(server, "gen_ai_client_operation_time_to_first_chunk_seconds_count", **OFFLINE) == 1
    for kind in ("input", "output"):
        assert await sample(server, "gen_ai_client_token_usage_sum", **OFFLINE, gen_ai_token_type=kind) > 0
    run = {"gen_ai_agent_name": "assistant", "error_type": ""}
    await becomes(server, 1, "gen_ai_invoke_agent_duration_seconds_count", **run)


async def failed_calls(server: RunningServer, error_type: str) -> None:
    """One call of a model has been counted as failed with this type."""
    counted = {**OFFLINE, "error_type": error_type}
    await becomes(server, 1, "gen_ai_client_operation_duration_seconds_count", **counted)


async def test_a_call_that_fails_or_is_stopped_is_counted_by_why(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.ask("fail after 3 tokens")
        await client.send({"message": "count down slowly from 50"})
        started = await client.until("started")
        # Before it, there is no call that could be stopped.
        await client.until("delta")
        await client.send({"type": "stop", "session_id": started["session_id"]})
        await client.until("final")
        await failed_calls(server, "_OTHER")
        await failed_calls(server, "stopped")


async def test_a_call_that_takes_too_long_is_counted_by_why(tmp_path: Path) -> None:
    settings = {"limits": {"model_timeout_s": 0.5}}
    async with running_server(tmp_path, settings=settings) as server, chat(server.address) as client:
        await client.ask("hang after 5 tokens")
        await failed_calls(server, "model_timeout")


async def test_metrics_are_for_the_inside_only(server: RunningServer) -> None:
    async with plain_http() as http:
        for path in ("/metrics", "/health/live", "/health/ready"):
            assert (await http.get(server.address + path)).status_code == 404
            assert (await http.get(server.internal + path)).status_code == 200
