"""Chat runs on two instances: each knows every run by its name, and each stream ends with one `done`."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.fault_agents import notes, words
from support.figures import figure
from support.run_client import APPROVAL, RESUME, Event, check_run, only, post, run, run_client, run_events, text_of_run
from support.server_process import ServerProcess, serving

pytestmark = pytest.mark.redis

LEASE_S = 5
SCRIPT = "note a | stumble b | words 3 0"


@pytest.fixture
async def servers(directory: Path, mongodb_url: str, redis_url: str) -> AsyncIterator[list[ServerProcess]]:
    arguments = ["--store", mongodb_url, "--broadcast", redis_url]
    environment = {"AGENTIC_RELAY__LEASE_S": str(LEASE_S)}
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(serving(*arguments, cwd=directory, environment=environment))
            for _ in range(2)
        ]


@pytest.fixture
async def clients(servers: list[ServerProcess]) -> AsyncIterator[list[httpx.AsyncClient]]:
    """The same user on each instance."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(run_client(server.address, "dev:ann")) for server in servers]


class Watched:
    """A stream that is read in the background."""

    def __init__(self, client: httpx.AsyncClient, message: str, **fields: Any) -> None:
        self.events: list[Event] = []
        self._reading = asyncio.create_task(self._read(client, {"message": message, **fields}))

    async def _read(self, client: httpx.AsyncClient, body: dict[str, Any]) -> None:
        async for event in run_events(client, body):
            self.events.append(event)

    async def until(self, type_: str, count: int = 1) -> None:
        async with asyncio.timeout(30):
            while len(only(self.events, type_)) < count:
                assert not self._reading.done(), self.events
                await asyncio.sleep(0.01)

    async def ended(self) -> list[Event]:
        async with asyncio.timeout(60):
            await self._reading
        check_run(self.events)
        return self.events

    async def broken(self) -> None:
        with pytest.raises(httpx.TransportError):
            await self._reading


async def test_a_run_that_is_started_on_both_runs_once(clients: list[httpx.AsyncClient], directory: Path) -> None:
    runs = await asyncio.gather(*(run(one, "note a | words 20 40", runId="once") for one in clients))
    assert [text_of_run(events) for events in runs] == [words(20)] * 2
    assert runs[0][-1] == runs[1][-1]
    assert [value for value, _ in notes(directory)] == ["a"]
    figure("its tool ran once; both streams ended alike")


async def test_a_call_is_approved_on_another_instance(clients: list[httpx.AsyncClient], directory: Path) -> None:
    events = await run(clients[0], "send mail | words 3 0", agentId="approved", runId="mail")
    [requested] = only(events, "tool_approval_requested")
    decision = {"runId": "mail", "toolCallId": requested["toolCallId"], "action": "approve"}
    answers = await asyncio.gather(*(one.post(APPROVAL, json=decision) for one in clients))
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert [value for value, _ in notes(directory)] == ["mail"]
    for one in clients:
        assert text_of_run((await post(one, RESUME, runId="mail"))["events"]) == words(3)
    figure("two instances were told at the same moment: ran once")


async def test_a_run_is_shown_and_stopped_from_another_instance(clients: list[httpx.AsyncClient]) -> None:
    here, there = clients
    running = Watched(here, "words 5000 40", runId="long")
    await running.until("text_delta")
    following = Watched(there, "whatever", runId="long")
    await following.until("text_delta")
    session = (await there.get("/agentic/v1/sessions")).json()["sessions"][0]
    stopped_at = time.monotonic()
    await there.post(f"/agentic/v1/sessions/{session['id']}/cancel", json={})
    ends = [await running.ended(), await following.ended()]
    took_s = time.monotonic() - stopped_at
    assert [events[-1]["status"] for events in ends] == ["canceled"] * 2
    assert text_of_run(ends[0]) == text_of_run(ends[1])
    figure(f"both streams ended {took_s:.2f} s after the stop, with the same text")


async def test_a_stream_on_another_instance_ends_when_that_one_goes(
    servers: list[ServerProcess], clients: list[httpx.AsyncClient]
) -> None:
    here, there = clients
    running = Watched(here, "words 200 40", runId="long")
    await running.until("text_delta")
    following = Watched(there, "whatever", runId="long")
    await following.until("text_delta")
    assert await servers[1].stop(signal.SIGTERM) == 0
    *_, error, done = await following.ended()
    assert (error["error"]["code"], done["status"]) == ("shutting_down", "running")
    assert text_of_run(await running.ended()) == words(200)
    figure("`shutting_down` and `done`; the run ended whole")


async def test_a_run_whose_instance_dies_is_resumed_on_another(
    servers: list[ServerProcess], clients: list[httpx.AsyncClient], directory: Path
) -> None:
    here, there = clients
    running = Watched(here, SCRIPT, runId="work")
    await running.until("tool_start", 2)
    following = Watched(there, "whatever", runId="work")
    await following.until("tool_start", 2)
    assert await servers[0].stop(signal.SIGKILL) == -signal.SIGKILL
    killed_at = time.monotonic()
    await running.broken()
    *_, error, done = await following.ended()
    took_s = time.monotonic() - killed_at
    assert (error["error"]["code"], done["status"]) == ("interrupted", "failed")
    answer = await post(there, RESUME, runId="work")
    assert (answer["status"], text_of_run(answer["events"])) == ("succeeded", words(3))
    assert [value for value, _ in notes(directory)] == ["a", "b", "b"]
    figure(f"told {took_s:.1f} s after the kill, with a lease of {LEASE_S} s; the tool that had ended ran once")
