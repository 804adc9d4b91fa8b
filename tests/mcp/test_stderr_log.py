"""What our own servers write to standard error is in the log: at debug, by server, bounded, without secrets."""

import asyncio
import logging
import tracemalloc
from typing import TextIO

import pytest
from services.mcp_echo import echo_over_stdio
from support.mcp_agents import built, told, tool_user
from support.recorded_agents import eventually

from agentic_backend.mcp.stdio import stderr_log

MIB, MEBIBYTES = 1024 * 1024, 24
LOGGER = "agentic_backend.mcp.stdio"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


async def test_lines_are_logged_at_debug_with_the_server(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER):
        async with built(tool_user({"echo": echo_over_stdio()})) as agent:
            await told(agent, "noise", text="one\ntwo")
            await eventually(lambda: len(lines(caplog)) == 2)
    assert [line.rpartition(": ")[2] for line in lines(caplog)] == ["noise on standard error one", "two"]
    assert {(record.levelname, vars(record)["mcp_server"]) for record in caplog.records if record.name == LOGGER} == {
        ("DEBUG", "echo")
    }


async def test_long_lines_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER):
        async with built(tool_user({"echo": echo_over_stdio()})) as agent:
            await told(agent, "noise", text="x" * 300_000 + "\nlast")
            await eventually(lambda: lines(caplog)[-1:] == ["MCP server says: last"])
    assert all(len(line) < 1100 for line in lines(caplog))


async def test_the_environment_that_a_server_was_given_is_redacted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER):
        async with built(tool_user({"echo": echo_over_stdio(env={"API_KEY": "quokkaberry"})})) as agent:
            await told(agent, "noise", text="my key is quokkaberry.")
            await eventually(lambda: lines(caplog))
    assert lines(caplog) == ["MCP server says: noise on standard error my key is [redacted]."]


async def test_nothing_is_logged_above_debug_and_the_server_still_writes(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        async with built(tool_user({"echo": echo_over_stdio()})) as agent:
            for _ in range(3):
                await told(agent, "noise", text="x" * 200_000)
    assert lines(caplog) == []


async def test_a_line_without_an_end_takes_no_memory(caplog: pytest.LogCaptureFixture) -> None:
    def write(sink: TextIO) -> None:
        for _ in range(MEBIBYTES):
            sink.write("x" * MIB)
            sink.flush()

    with caplog.at_level(logging.DEBUG, LOGGER):
        async with stderr_log("endless", []) as sink:
            tracemalloc.start()
            await asyncio.to_thread(write, sink)
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            sink.write("\nlast\n")
            sink.close()
            await eventually(lambda: lines(caplog)[-1:] == ["MCP server says: last"])
    print(f"figure: {MEBIBYTES} MiB without a line feed: memory +{most / MIB:.1f} MiB")
    assert most < MEBIBYTES * MIB / 2
    assert all(len(line) < 1100 for line in lines(caplog))
