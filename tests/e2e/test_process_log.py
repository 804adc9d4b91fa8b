"""The log of a real process: whoever reads it may stop or go away, and floods leave few lines."""

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from support.chat_client import chat
from support.log_lines import log_lines
from support.server_process import PATIENCE_S, ServerProcess, command, serving

SMALLEST_PIPE = 4_096
ASKS = 30
FLOOD = 2_000
AT_ONCE = {"AGENTIC_MODELS__DEFAULT__OPTIONS": '{"words_per_second": 0}'}


async def test_a_reader_of_standard_error_that_stops_holds_nobody_up(tmp_path: Path) -> None:
    """Where a write to a full pipe blocked the event loop, the third ask was never answered."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE)
    async with serving(cwd=tmp_path, environment=AT_ONCE, stderr=writing) as server:
        os.close(writing)
        async with chat(server.address) as client:
            for _ in range(ASKS):
                assert (await client.ask("hello"))[-1]["status"] == "ok"
        server.process.send_signal(signal.SIGTERM)
        data = b""
        while piece := await asyncio.to_thread(os.read, reading, 65_536):
            data += piece
        assert await server.ended() == 0
    os.close(reading)
    messages = [line["message"] for line in log_lines(data.decode())]
    assert len(data) > 5 * SMALLEST_PIPE
    assert messages.count("exchange ended") == ASKS, "nothing was lost, as it fitted into the queue"
    assert messages[-1] != "exchange ended" and "server stopping" in messages


async def test_a_reader_of_standard_error_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    async with serving(cwd=tmp_path, environment=AT_ONCE, stderr=writing) as server:
        os.close(writing)
        os.close(reading)
        async with chat(server.address) as client:
            for _ in range(ASKS):
                assert (await client.ask("hello"))[-1]["status"] == "ok"
        assert await server.stop() == 0


async def test_a_flood_of_refusals_leaves_few_lines_whose_counts_add_up(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as server, httpx.AsyncClient(base_url=server.address) as http:
        for _ in range(FLOOD // 50):
            refused = await asyncio.gather(*(http.get("/agentic/v1/sessions/nobody") for _ in range(50)))
            assert {response.status_code for response in refused} == {404}
        assert await server.stop(timeout_s=PATIENCE_S) == 0
    lines = log_lines(server.stderr)
    shown = [line for line in lines if line["message"] == "request refused"]
    counted = [line for line in lines if line["message"] == "log lines suppressed"]
    print(f"figure: {FLOOD} refusals: {len(lines)} lines")
    assert len(shown) < FLOOD / 10
    # A store on a busy machine may be late often enough too.
    refused_count = sum(line["count"] for line in counted if line["suppressed"] == "request refused")
    assert {line["suppressed"] for line in counted} - {"store answers late"} == {"request refused"}
    assert len(shown) + refused_count == FLOOD, "the last count comes with the end"


NOISY = """
import logging, warnings
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

warnings.warn("an old call", stacklevel=1)

def noisy(state):
    warnings.warn("another old call", stacklevel=1)
    logging.getLogger("a_library").warning("it retries")
    return {"messages": [AIMessage("said")]}

builder = StateGraph(MessagesState)
builder.add_node("noisy", noisy)
builder.add_edge(START, "noisy")
graph = builder.compile()
"""
CATALOG = """
agents:
  - {id: noisy, class_path: 'noisy_agents:graph'}
  - {id: typo, class_path: 'noisy_agents:grahp'}
  - {id: expensive, class_path: 'noisy_agents:graph', model: 'groq:llama'}
"""
SOURCES = {
    ("agentic_backend.command_line.commands", "catalog problem"),
    ("agentic_backend.command_line.commands", "model problem"),
    ("a_library", "it retries"),
    ("agentic_backend.server.process", "server started"),
}


def write_noisy_agents(directory: Path) -> None:
    (directory / "noisy_agents.py").write_text(NOISY)
    (directory / "agents_catalog.yaml").write_text(CATALOG)


async def make_noise(server: ServerProcess) -> None:
    async with chat(server.address) as client:
        assert (await client.ask("hello", agent_id="noisy"))[-1]["status"] == "ok"
    # uvicorn reads them.
    for address in filter(None, (server.address, server.internal)):
        parts = urlsplit(address)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nbroken header\r\n\r\n")
        await reader.read()
        writer.close()


async def test_every_line_has_one_form_whoever_logs_it_and_however_early(tmp_path: Path) -> None:
    write_noisy_agents(tmp_path)
    async with serving(cwd=tmp_path) as server:
        await make_noise(server)
        assert await server.stop() == 0
    lines = log_lines(server.stderr)
    assert all(list(line)[:4] == ["time", "level", "logger", "message"] for line in lines)
    told = {(line["logger"], line["message"]) for line in lines}
    assert told >= SOURCES
    assert "another old call" in str(told)


async def test_on_a_terminal_the_lines_are_for_people(tmp_path: Path) -> None:
    write_noisy_agents(tmp_path)
    terminal, end = pty.openpty()
    async with serving(cwd=tmp_path, stderr=end) as server:
        os.close(end)
        reading = asyncio.create_task(asyncio.to_thread(read_all, terminal))
        await make_noise(server)
        assert await server.stop() == 0
        lines = (await reading).splitlines()
    assert lines and all(re.match(r"\d\d:\d\d:\d\d\.\d{3} \w+ +\S|    at |  ", line) for line in lines), lines
    [started] = [line for line in lines if "server started" in line]
    assert started.split()[1] == "info" and "auth=developer" in started and "limits={" in started
    assert any("error    catalog problem  problem=agents_catalog.yaml:4:" in line for line in lines)


def read_all(terminal: int) -> str:
    data = b""
    # Its end is an error, as the other side is closed.
    with contextlib.suppress(OSError):
        while piece := os.read(terminal, 65_536):
            data += piece
    os.close(terminal)
    return data.decode()


async def test_the_form_of_the_settings_holds(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("log: {format: console}\n")
    write_noisy_agents(tmp_path)
    async with command("validate", "--config", "settings.yaml", cwd=tmp_path) as validation:
        assert await validation.ended() == 2
    lines = validation.stderr.splitlines()
    assert not any(line.startswith("{") for line in lines) and "catalog problem" in validation.stderr


async def test_the_start_line_tells_what_runs(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as server:
        assert await server.stop() == 0
    [started] = [line for line in log_lines(server.stderr) if line["message"] == "server started"]
    assert started["version"] == version("agentic-backend")
    assert (started["store"], started["auth"], started["models"]) == ("sqlite", "developer", {"default": "offline"})
    assert "assistant" in started["agents"] and started["limits"]["max_running"] > 0
