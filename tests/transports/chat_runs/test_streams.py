"""The end of a run's stream: exactly one `done`, whatever comes between."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from support import paced_agent
from support.hostile_modules import MADE, Acting, entry
from support.recorded_agents import eventually, one_node
from support.rest_client import metric_at
from support.run_client import (
    CHAT,
    RESUME,
    Event,
    check_run,
    only,
    post,
    run,
    run_client,
    run_events,
    text_of_run,
)
from support.running_server import RunningServer, running_server

from agentic_backend.errors import ContentFiltered
from agentic_backend.sessions.reading.trust_reports import TrustReports
from agentic_backend.transports import credentials
from tests.transports.chat_runs.conftest import AGENTS

SLOW = {"message": "words 2 0 | pause 1 | words 3 0", "agentId": "scripted", "runId": "slow"}


def _filter(state: Any) -> Any:
    raise ContentFiltered


filtered_graph = one_node(_filter)


@pytest.fixture
async def guarded(store_url: str, tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server whose module does what the test sets."""
    file = tmp_path / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": [entry("guard")]}))
    MADE.clear()
    settings = {"modules": {"file": str(file)}, "store": {"url": store_url}}
    agents = [*AGENTS, {"id": "held", "class_path": "support.fault_agents:Scripted", "hold_output": True}]
    async with running_server(tmp_path, agents=agents, settings=settings) as server:
        yield server


def guardrail(events: list[Event]) -> Event:
    """The objection with which a run has failed."""
    assert events[-1]["status"] == "failed"
    error: Event = events[-2]["error"]
    assert (error["type"], error["code"], error["retryable"]) == ("guardrail", "blocked", False)
    return error


@pytest.mark.parametrize(("at", "stage"), [("before", "input"), ("after", "output")])
async def test_a_guardrail_that_blocks_is_named(guarded: RunningServer, at: str, stage: str) -> None:
    MADE[-1].settings = Acting.Settings(**{at: "block_word"})
    async with run_client(guarded.address) as http:
        events = await run(http, "a secret", agentId="echo")
        error = guardrail(events)
        assert (error["stage"], error["module"]) == (stage, "guard")
        exchange = (await http.get(f"/agentic/v1/exchanges/{events[-1]['runId']}")).json()
        assert exchange["status"] == "blocked"
        assert error["requestId"]
        # The text is what the server answers instead.
        assert text_of_run(events) == "That is not said here."


async def test_a_text_that_the_provider_filters_is_a_guardrails_error(tmp_path: Path) -> None:
    entries = [{"id": "filtered", "class_path": f"{__name__}:filtered_graph"}]
    async with running_server(tmp_path, agents=entries) as server, run_client(server.address) as http:
        events = await run(http, "hello", agentId="filtered")
    error = events[-2]["error"]
    assert (error["type"], error["code"], events[-1]["status"]) == ("guardrail", "content_filtered", "failed")
    assert "module" not in error


@pytest.mark.parametrize("agent_id", ["scripted", "held"])
async def test_a_text_that_a_module_changes_is_replaced(guarded: RunningServer, agent_id: str) -> None:
    MADE[-1].settings = Acting.Settings(after="redact", word="2")
    async with run_client(guarded.address) as http:
        events = await run(http, "words 3 0", agentId=agent_id)
        assert text_of_run(events) == "1 *** 3" and events[-1]["status"] == "succeeded"
        was_shown = any("2" in event["text"] for event in only(events, "text_delta"))
        assert was_shown == (agent_id == "scripted")


async def test_a_run_goes_on_if_its_client_disconnects(server: RunningServer, ann: httpx.AsyncClient) -> None:
    for _ in range(2):
        async for event in run_events(ann, SLOW):
            if event["type"] == "tool_start":
                break
    answer = await post(ann, RESUME, runId="slow")
    assert (answer["status"], text_of_run(answer["events"])) == ("succeeded", "1 2 3")


async def test_a_client_that_is_cut_at_any_moment_leaves_nothing_behind(server: RunningServer) -> None:
    host, port = server.address.removeprefix("http://").split(":")
    body = b'{"message": "words 200 2000", "agentId": "scripted"}'
    head = f"POST {CHAT} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for bytes_read in (0, 1, 200, 2_000):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head + body)
        if bytes_read:
            await reader.readexactly(bytes_read)
        writer.transport.abort()
    async with asyncio.timeout(20):
        while await metric_at(server.internal, "chat_running_exchanges"):
            await asyncio.sleep(0.02)


async def test_a_stopped_run_keeps_its_text_and_is_canceled(tmp_path: Path) -> None:
    pace = paced_agent.begin()
    async with running_server(tmp_path, agents=[paced_agent.ENTRY]) as server, run_client(server.address) as http:
        events: list[Event] = []

        async def watch() -> None:
            async for event in run_events(http, {"message": paced_agent.ASK, "agentId": "paced", "runId": "long"}):
                events.append(event)

        watching = asyncio.create_task(watch())
        pace.write(5)
        await eventually(lambda: text_of_run(events).split() == paced_agent.first_words(5).split())
        sessions = (await http.get("/agentic/v1/sessions")).json()["sessions"]
        await http.post(f"/agentic/v1/sessions/{sessions[0]['id']}/cancel", json={})
        await watching
        check_run(events)
        assert events[-1]["status"] == "canceled" and not only(events, "error")
        assert text_of_run(events).split() == paced_agent.first_words(5).split()


async def test_a_stream_ends_with_its_token_and_the_run_goes_on(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "EXPIRY_LEEWAY_S", 0)
    async with run_client(server.address, f"dev:ann:{int(time.time()) + 2}") as http:
        events = [event async for event in run_events(http, SLOW | {"message": "pause 3 | words 3 0"})]
    check_run(events)
    assert (events[-2]["error"]["code"], events[-2]["error"]["retryable"]) == ("token_expired", True)
    assert (events[-1]["runId"], events[-1]["status"]) == ("slow", "running")
    async with run_client(server.address, "dev:ann") as http:
        answer = await post(http, RESUME, runId="slow")
        assert (answer["status"], text_of_run(answer["events"])) == ("succeeded", "1 2 3")


async def test_a_run_ends_without_a_trust_summary_that_fails(
    ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(TrustReports, "of", fail)
    events = await run(ann, "hello", agentId="echo")
    assert events[-1]["status"] == "succeeded" and not only(events, "agent_summary")


async def test_a_deleted_conversation_ends_its_run(ann: httpx.AsyncClient) -> None:
    events = run_events(ann, SLOW)
    seen = [await anext(events)]
    sessions = (await ann.get("/agentic/v1/sessions")).json()["sessions"]
    await ann.delete(f"/agentic/v1/sessions/{sessions[0]['id']}")
    seen += [event async for event in events]
    check_run(seen)
    assert seen[-1]["status"] in ("canceled", "failed")
