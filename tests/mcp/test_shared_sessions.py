"""A server that is `shared`: one session for all agents, each with its own calls, and its own pick of the tools."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from services.mcp_echo import EchoServer, echo_over_stdio
from services.mcp_echo_server import fingerprint
from support.mcp_agents import PATIENCE_S, ToolUser, built, call, refused, told, tool_user, tools_of
from support.processes import is_there
from support.recorded_agents import eventually

from agentic_backend.errors import AgentUnavailable
from agentic_backend.mcp.shared_sessions import SharedSessions
from agentic_backend.testing import Call, ScriptedModel

AWAY = "The MCP server 'echo' is not available; it is being restarted."
SHARED = echo_over_stdio(shared=True)


@pytest.fixture
async def shared() -> AsyncIterator[SharedSessions]:
    sessions = SharedSessions()
    yield sessions
    await sessions.aclose()


async def two(stack: AsyncExitStack, shared: SharedSessions, **settings: Any) -> tuple[ToolUser, ToolUser]:
    servers = {"echo": {**SHARED, **settings}}
    ann = await stack.enter_async_context(built(tool_user(servers, shared=shared)))
    return ann, await stack.enter_async_context(built(tool_user(servers, shared=shared)))


async def test_agents_that_start_at_the_same_time_share_one_program(shared: SharedSessions) -> None:
    before = asyncio.all_tasks()
    agents = [tool_user({"echo": SHARED}, shared=shared) for _ in range(4)]
    await asyncio.gather(*(agent.async_init() for agent in agents))
    [process] = {await told(agent, "process_id") for agent in agents}
    assert [await told(agent, "count") for agent in agents] == ["1", "2", "3", "4"]
    for agent in agents:
        await agent.aclose()
    assert is_there(int(process)), "it stays when agents close"
    async with built(tool_user({"echo": SHARED}, shared=shared)) as later:
        assert await told(later, "process_id") == process
    await shared.aclose()
    assert not is_there(int(process))
    assert asyncio.all_tasks() == before


async def test_it_ends_when_nobody_calls_and_comes_back_for_whoever_calls_next(shared: SharedSessions) -> None:
    async with AsyncExitStack() as stack:
        ann, bob = await two(stack, shared, idle_s=0.3)
        first = await told(ann, "process_id")
        await eventually(lambda: not is_there(int(first)))
        again = await asyncio.gather(told(ann, "process_id"), told(bob, "process_id"))
        assert again[0] == again[1] != first


async def test_each_agent_picks_its_own_tools(shared: SharedSessions) -> None:
    async with (
        built(tool_user({"echo": SHARED}, uses=[{"id": "echo", "tools": ["echo"]}], shared=shared)) as ann,
        built(tool_user({"echo": SHARED}, uses=[{"id": "echo", "tools": ["count"]}], shared=shared)) as bob,
    ):
        assert (tools_of(ann), tools_of(bob)) == (["echo"], ["count"])
        missing = tool_user({"echo": SHARED}, uses=[{"id": "echo", "require_tools": ["sing"]}], shared=shared)
        with pytest.raises(AgentUnavailable, match="lacks the tools sing"):
            await missing.async_init()
        assert await told(bob, "count") == "1", "the session of the others stays open"


async def test_a_stopped_call_disturbs_no_other(shared: SharedSessions) -> None:
    async with AsyncExitStack() as stack:
        ann, bob = await two(stack, shared, tool_timeout_s=4)
        stopped, others = asyncio.create_task(call(ann, "hang")), asyncio.create_task(call(bob, "hang"))
        await asyncio.sleep(0.3)
        await told(bob, "echo", text="next")
        stopped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        assert await told(bob, "cancellations") == "1"
        assert not others.done()
        assert (await others).text == "The tool did not end within 4 seconds."


async def test_progress_goes_to_the_agent_that_called(shared: SharedSessions) -> None:
    async def events(call_id: str, steps: int) -> list[Any]:
        model = ScriptedModel(Call("report", {"steps": steps}, call_id), "Done.")
        async with built(tool_user({"echo": SHARED}, model=model, shared=shared)) as agent:
            stream = agent.get_compiled_graph().astream({"messages": [("human", "go")]}, stream_mode="custom")
            return [(event["call_id"], event["progress"], event["total"]) async for event in stream]

    ann, bob = await asyncio.gather(events("ann", 3), events("bob", 2))
    assert ann == [("ann", step, 3) for step in (1, 2, 3)]
    assert bob == [("bob", step, 2) for step in (1, 2)]


async def test_a_crash_is_seen_by_all_and_the_program_starts_again_once(shared: SharedSessions) -> None:
    async with AsyncExitStack() as stack:
        ann, bob = await two(stack, shared)
        running = asyncio.create_task(call(bob, "hang"))
        await asyncio.sleep(0.2)
        assert await refused(ann, "crash") == AWAY
        assert (await running).text == AWAY
        async with asyncio.timeout(PATIENCE_S):
            while (await call(ann, "echo", text="again")).status != "success":
                await asyncio.sleep(0.05)
        assert await told(ann, "process_id") == await told(bob, "process_id")


async def test_a_server_that_can_not_be_reached_is_tried_again_for_the_next_agent(shared: SharedSessions) -> None:
    absent = {"echo": {"transport": "stdio", "command": "/no/such/program", "shared": True}}
    for outcome in await asyncio.gather(
        *(tool_user(absent, shared=shared).async_init() for _ in range(3)), return_exceptions=True
    ):
        assert isinstance(outcome, AgentUnavailable)
    async with built(tool_user({"echo": SHARED}, shared=shared)) as agent:
        assert await told(agent, "count") == "1"


async def test_an_agent_that_is_stopped_while_it_starts_leaves_the_session_to_the_others(
    shared: SharedSessions,
) -> None:
    first = asyncio.create_task(tool_user({"echo": SHARED}, shared=shared).async_init())
    await asyncio.sleep(0.05)
    async with built(tool_user({"echo": SHARED}, shared=shared)) as agent:
        first.cancel()
        await asyncio.wait({first})
        assert await told(agent, "count") == "1"


async def test_over_http_one_session_serves_all_and_gives_back_no_key(
    shared: SharedSessions, open_echo: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_API_KEY", "quokkaberry")
    auth = {"mode": "header", "header": "X-Api-Key", "environment": "SEARCH_API_KEY"}
    servers = {"echo": open_echo.settings(auth=auth, shared=True)}
    async with (
        built(tool_user(servers, shared=shared, token="dev:ann")) as ann,
        built(tool_user(servers, shared=shared, token="dev:bob")) as bob,
    ):
        assert [await told(ann, "count"), await told(bob, "count")] == ["1", "2"]
        for agent in (ann, bob):
            assert await told(agent, "header", name="x-api-key") == fingerprint("quokkaberry")
            assert await told(agent, "whoami") == "nobody"
            assert "quokkaberry" not in await told(agent, "headers")
