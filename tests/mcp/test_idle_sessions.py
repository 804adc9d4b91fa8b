"""A program that nobody calls ends, and the next call starts it again: no failure for anybody."""

import asyncio
import random
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from services.mcp_raw import raw_server
from support.log_lines import warnings_of
from support.mcp_agents import PATIENCE_S, ToolUser, built, call, refused, told, tool_user, tools_of
from support.processes import is_there
from support.recorded_agents import eventually

AWAY = "The MCP server 'echo' is not available; it is being restarted."


def program(**settings: Any) -> dict[str, Any]:
    """One that starts in no time."""
    tools = [{"name": name} for name in ("process_id", "count", "hang")]
    return {**raw_server(tools, result={}), **settings}


async def process_of(agent: ToolUser) -> int:
    return int(await told(agent, "process_id"))


def slow_to_end(seconds: float) -> dict[str, Any]:
    """A program that goes on for a while after its input has ended."""
    server = program()
    command = shlex.join([server["command"], *server["args"]])
    return {**server, "command": "sh", "args": ["-c", f"{command}; sleep {seconds}"]}


async def test_a_program_that_nobody_calls_ends_and_the_next_call_starts_it_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[bool] = []
    server = program(idle_s=0.3)
    async with built(tool_user({"echo": server}, observe=lambda _, up: seen.append(up))) as agent:
        tools, first = tools_of(agent), await process_of(agent)
        assert await told(agent, "count") == "1"
        await eventually(lambda: not is_there(first))
        second = await process_of(agent)
        assert second != first
        assert await told(agent, "count") == "1", "what the program kept is lost with it"
        assert tools_of(agent) == tools
        await eventually(lambda: not is_there(second))
    assert False not in seen, "the server is up all the time"
    assert warnings_of(caplog.records) == []


async def test_a_program_that_nobody_ever_calls_ends_too() -> None:
    before = asyncio.all_tasks()
    async with built(tool_user({"echo": program(idle_s=0.3)})) as agent:
        # Of the tasks that read, write and wait for the program, its session's owner alone is left.
        await eventually(lambda: len(asyncio.all_tasks() - before) == 1)
        assert await told(agent, "count") == "1"


async def test_a_program_is_not_idle_while_a_call_runs() -> None:
    async with built(tool_user({"echo": program(idle_s=0.3, tool_timeout_s=1.5)})) as agent:
        first = await process_of(agent)
        assert await refused(agent, "hang") == "The tool did not end within 1.5 seconds."
        assert await process_of(agent) == first


async def test_calls_at_the_moment_of_its_end_are_all_answered() -> None:
    idle_s, processes = 0.15, set[int]()
    async with built(tool_user({"echo": program(idle_s=idle_s)})) as agent:
        for _ in range(8):
            processes.add(await process_of(agent))
            await asyncio.sleep(idle_s + random.uniform(-0.01, 0.03))
            together = await asyncio.gather(*(told(agent, "process_id") for _ in range(3)))
            assert len(set(together)) == 1
    assert len(processes) > 1, "it has ended in between"


async def test_a_call_that_comes_while_the_program_ends_waits_for_the_next_one() -> None:
    async with built(tool_user({"echo": {**slow_to_end(1), "idle_s": 0.3}})) as agent:
        first = await process_of(agent)
        await eventually(lambda: not is_there(first))
        # The shell around it still sleeps.
        assert await process_of(agent) != first


async def test_a_program_that_can_not_be_started_again_is_a_failure_like_any_other(tmp_path: Path) -> None:
    seen: list[bool] = []
    executable, gone = tmp_path / "program", tmp_path / "gone"
    server = program(idle_s=0.3)
    executable.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    executable.chmod(0o700)
    server["command"] = str(executable)
    async with built(tool_user({"echo": server}, observe=lambda _, up: seen.append(up))) as agent:
        first = await process_of(agent)
        await eventually(lambda: not is_there(first))
        executable.rename(gone)
        results = await asyncio.gather(*(call(agent, "process_id") for _ in range(3)))
        assert [result.text for result in results] == [AWAY] * 3
        assert seen == [True, False]
        gone.rename(executable)
        async with asyncio.timeout(PATIENCE_S):
            while (await call(agent, "process_id")).status != "success":
                await asyncio.sleep(0.05)
    assert seen[-1] is True


async def test_an_agent_closes_while_its_program_rests() -> None:
    before = asyncio.all_tasks()
    async with built(tool_user({"echo": program(idle_s=0.3)})) as agent:
        first = await process_of(agent)
        await eventually(lambda: not is_there(first))
        await agent.aclose()
        assert asyncio.all_tasks() == before
        assert await refused(agent, "process_id") == AWAY


async def test_an_agent_closes_while_a_call_waits_for_its_program() -> None:
    async with built(tool_user({"echo": {**slow_to_end(1), "idle_s": 0.3}})) as agent:
        first = await process_of(agent)
        await eventually(lambda: not is_there(first))
        waiting = asyncio.create_task(call(agent, "process_id"))
        await asyncio.sleep(0)
        await agent.aclose()
        assert (await waiting).text == AWAY
