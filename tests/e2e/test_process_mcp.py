"""The server as a process: what becomes of the MCP servers that it has started."""

import os
import shutil
import signal
from pathlib import Path

import pytest
import yaml
from services.mcp_echo import echo_over_stdio
from support.chat_client import chat
from support.mcp_agents import MODULE
from support.processes import runs
from support.recorded_agents import eventually
from support.server_process import ServerProcess, serving
from support.services import require

TESTS = Path(__file__).parents[1]
AGENT = {"id": "local", "class_path": f"{MODULE}:ToolUser", "tuning": {"mcp_servers": [{"id": "local"}]}}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "config").mkdir()
    settings = {"mcp_servers": {"local": echo_over_stdio()}, "server": {"grace_s": 0.5}}
    (tmp_path / "config" / "settings.yaml").write_text(yaml.safe_dump(settings))
    (tmp_path / "agents_catalog.yaml").write_text(yaml.safe_dump({"agents": [AGENT]}))
    return tmp_path


async def process_in_a_tool(server: ServerProcess, tool: str) -> int:
    """Leave an exchange behind that waits for `tool`; the id of the process that runs it."""
    async with chat(server.address) as client:
        final = (await client.ask("call process_id()"))[-1]
        parts = [part for message in final["messages"] for part in message["parts"]]
        [process_id] = [int(part["content"]) for part in parts if part["type"] == "tool_result"]
        await client.send({"message": f"call {tool}()", "session_id": final["session_id"]})
        while (await client.until("stream"))["message"]["channel"] != "tool_call":
            pass
    return process_id


@pytest.mark.parametrize("tool", ["hang", "block"])
async def test_no_process_outlives_a_server_that_is_told_to_stop(directory: Path, tool: str) -> None:
    async with serving(cwd=directory, environment={"PYTHONPATH": str(TESTS)}) as server:
        process_id = await process_in_a_tool(server, tool)
        assert runs(process_id)
        assert await server.stop() == 0
    # The kernel may still be at it.
    await eventually(lambda: not runs(process_id))


@pytest.mark.parametrize("tool", ["hang", "block"])
async def test_no_process_outlives_a_server_that_is_killed(directory: Path, tool: str) -> None:
    require("setpriv", shutil.which("setpriv") is not None, "it is part of util-linux, and so of every Linux")
    async with serving(cwd=directory, environment={"PYTHONPATH": str(TESTS)}) as server:
        process_id = await process_in_a_tool(server, tool)
        assert runs(process_id)
        os.kill(server.pid, signal.SIGKILL)
        await eventually(lambda: not runs(process_id))


async def test_what_it_writes_is_in_the_debug_log(directory: Path) -> None:
    environment = {"PYTHONPATH": str(TESTS), "AGENTIC_LOG__LEVEL": "debug"}
    async with serving(cwd=directory, environment=environment) as server, chat(server.address) as client:
        await client.ask('call noise(text="bearer quokkaberry")')
        await eventually(lambda: "noise on standard error" in server.stderr)
        assert "quokkaberry" not in server.stderr
