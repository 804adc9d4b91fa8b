"""What our own servers write to standard error is in the log: at debug, by server, bounded, without secrets."""

import asyncio
import logging
import tracemalloc
from typing import TextIO
from urllib.parse import quote

import pytest
from services.mcp_echo import echo_over_stdio
from support.mcp_agents import built, told, tool_user
from support.recorded_agents import eventually

from agentic_backend.mcp.credentials import Credentials
from agentic_backend.mcp.stdio import stderr_log

MIB, MEBIBYTES = 1024 * 1024, 24
LOGGER = "agentic_backend.mcp.stdio"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [vars(record)["text"] for record in caplog.records if record.message == "MCP server says"]


async def test_lines_are_logged_at_debug_with_the_server(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER):
        async with built(tool_user({"echo": echo_over_stdio()})) as agent:
            await told(agent, "noise", text="one\ntwo")
            await eventually(lambda: len(lines(caplog)) == 2)
    assert lines(caplog) == ["noise on standard error one", "two"]
    assert {(record.levelname, vars(record)["mcp_server"]) for record in caplog.records if record.name == LOGGER} == {
        ("DEBUG", "echo")
    }


async def test_long_lines_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER):
        async with built(tool_user({"echo": echo_over_stdio()})) as agent:
            await told(agent, "noise", text="x" * 300_000 + "\nlast")
            await eventually(lambda: lines(caplog)[-1:] == ["last"])
    assert all(len(line) < 1100 for line in lines(caplog))


async def test_the_environment_that_a_server_was_given_is_redacted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER):
        async with built(tool_user({"echo": echo_over_stdio(env={"API_KEY": "quokkaberry"})})) as agent:
            await told(agent, "noise", text="my key is quokkaberry.")
            await eventually(lambda: lines(caplog))
    assert lines(caplog) == ["noise on standard error my key is [redacted]."]


async def test_each_value_is_redacted_in_every_form_whatever_its_name(caplog: pytest.LogCaptureFixture) -> None:
    given = {"API_KEY": "quokka berry é", "PLACE": "quince/quokka é"}
    forms = [form for value in given.values() for form in (value, quote(value, safe=""), value.encode().hex())]
    with caplog.at_level(logging.DEBUG, LOGGER):
        async with built(tool_user({"echo": echo_over_stdio(env=given)})) as agent:
            await told(agent, "noise", text="\n".join(["", *forms, "end"]))
            await eventually(lambda: lines(caplog)[-1:] == ["end"])
    assert lines(caplog)[1:-1] == ["[redacted]"] * 6


async def logged(caplog: pytest.LogCaptureFixture, secrets: list[str], *texts: str) -> list[str]:
    """What the log shows of lines on standard error."""
    caplog.clear()
    with caplog.at_level(logging.DEBUG, LOGGER):
        async with stderr_log("raw", Credentials(secrets)) as sink:
            await asyncio.to_thread(print, *texts, "end", sep="\n", file=sink, flush=True)
            sink.close()
            await eventually(lambda: lines(caplog)[-1:] == ["end"])
    return lines(caplog)[:-1]


async def test_a_value_across_the_cut_is_redacted(caplog: pytest.LogCaptureFixture) -> None:
    secret = "".join(map(chr, range(0x4E00, 0x4E40)))
    for line in await logged(caplog, [secret], *("x" * at + secret + "y" * 5_000 for at in range(700, 1010))):
        assert line.startswith("x" * 700)
        assert set(line) <= {"x", "y", *"[redacted]"}
        assert len(line) <= 1000


async def test_a_value_at_the_end_of_what_is_read_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Long values before it became short, so it moved to the front."""
    long, short = "quokkaberry" * 40, "berryq"
    for line in await logged(caplog, [long, short], *(("z" * at + long * 50) for at in range(0, 440, 7))):
        assert set(line.replace("[redacted]", "")) <= {"z"}
        assert line.count("[redacted]") > 1


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
        async with stderr_log("endless", Credentials()) as sink:
            tracemalloc.start()
            await asyncio.to_thread(write, sink)
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            sink.write("\nlast\n")
            sink.close()
            await eventually(lambda: lines(caplog)[-1:] == ["last"])
    print(f"figure: {MEBIBYTES} MiB without a line feed: memory +{most / MIB:.1f} MiB")
    assert most < MEBIBYTES * MIB / 2
    assert all(len(line) < 1100 for line in lines(caplog))
