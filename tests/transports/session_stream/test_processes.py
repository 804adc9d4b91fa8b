"""Servers as processes: two on one MongoDB and one Redis serve each other's sessions, and one is told to go."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from support.server_process import ServerProcess, serving
from support.tool_sessions import answer_in, check_stream, history, opened, sending, sent, tool_client


@pytest.fixture
async def servers(mongodb_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[list[ServerProcess]]:
    arguments = ["--store", mongodb_url, "--broadcast", redis_url]
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(serving(*arguments, cwd=tmp_path)) for _ in range(2)]


@pytest.mark.redis
@pytest.mark.parametrize("call", ["cancel", "complete"])
async def test_what_runs_on_one_is_ended_over_the_other(servers: list[ServerProcess], call: str) -> None:
    here, there = servers
    async with tool_client(here.address) as running, tool_client(there.address) as other:
        session_id = await opened(other)
        async with sending(running, session_id, "hang after 20 tokens") as stream:
            events = [await anext(stream)]
            refused = await other.post(f"/sessions/{session_id}/messages", json={"content": "hello"})
            assert (refused.status_code, refused.json()["code"]) == (409, "session_busy")
            ended = (await other.post(f"/sessions/{session_id}/{call}")).json()
            assert ended == {"cancelled": True} if call == "cancel" else ended["state"] == "completed"
            events += [event async for event in stream]
        check_stream(events)
        assert events[-1]["meta"]["cancelled"] is True
        kept = (await history(other, session_id))[-1]
        assert (kept["content"], kept["finishReason"]) == (answer_in(events), "cancelled")


async def test_an_answer_may_end_while_its_server_is_told_to_go(tmp_path: Path) -> None:
    slow = {"AGENTIC_SERVER__GRACE_S": "60", "AGENTIC_MODELS__DEFAULT__OPTIONS": '{"words_per_second": 20}'}
    async with serving(cwd=tmp_path, environment=slow) as server, tool_client(server.address) as http:
        async with sending(http, await opened(http), "write 40 words") as stream:
            events = [await anext(stream)]
            ending = asyncio.create_task(server.stop())
            events += [event async for event in stream]
        assert await ending == 0
    check_stream(events)
    assert events[-1]["type"] == "done" and len(answer_in(events).split()) == 40


@pytest.mark.redis
async def test_a_session_goes_on_over_the_other(servers: list[ServerProcess]) -> None:
    here, there = servers
    async with tool_client(here.address) as first, tool_client(there.address) as second:
        session_id = await opened(first)
        await sent(first, session_id, "my name is Zorblax")
        events = await sent(second, session_id, "what is my name?")
        assert answer_in(events) == "Your name is Zorblax."
        assert await history(first, session_id) == await history(second, session_id)
        [active] = (await second.get("/sessions", params={"toolId": "assistant", "state": "active"})).json()["sessions"]
        assert active["id"] == session_id
