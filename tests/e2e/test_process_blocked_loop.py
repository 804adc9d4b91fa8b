"""Code that blocks the event loop of a server in a process of its own, with uvloop: the log tells of it, in time."""

import asyncio
import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphs import loop_blocking
from support.chat_client import chat
from support.recorded_agents import eventually
from support.rest_client import metric_at
from support.server_process import ServerProcess, serving

AGENTS = ("sleeping", "never_ending", "going_on")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """With a catalog of graphs that block."""
    shutil.copy(loop_blocking.__file__, tmp_path)
    entries = [{"id": name, "class_path": f"loop_blocking:{name}"} for name in AGENTS]
    (tmp_path / "agents_catalog.yaml").write_text(yaml.safe_dump({"agents": entries}))
    return tmp_path


def told(server: ServerProcess) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in server.stderr.splitlines() if line.startswith("{")]
    return [line for line in lines if line["logger"] == "agentic_backend.loop.blocked_loop"]


async def test_the_log_names_agent_node_and_line(directory: Path) -> None:
    async with serving(cwd=directory) as server:
        async with chat(server.address) as client:
            await client.ask("hello", agent_id="sleeping")
        name = 'chat_event_loop_blocked_seconds_count{agent_id="sleeping"}'
        assert await metric_at(server.internal, name) == 1
        await eventually(lambda: len(told(server)) == 1)
        [line] = told(server)
        assert (line["level"], line["agent_id"], line["node"]) == ("warning", "sleeping", "sleep")
        assert line["line"].startswith("loop_blocking.py:") and line["line"].endswith(" in _sleep")
        assert line["stack"][0] == line["line"]


async def test_the_log_names_the_module_and_its_line(directory: Path) -> None:
    modules = directory / "modules.yaml"
    modules.write_text(yaml.safe_dump({"modules": [{"name": "slow", "class_path": "loop_blocking:Sleeping"}]}))
    environment = {"AGENTIC_MODULES__FILE": str(modules)}
    async with serving(cwd=directory, environment=environment) as server, chat(server.address) as client:
        await client.ask("hello", agent_id="going_on")
        await eventually(lambda: [line for line in told(server) if line["agent_id"] == "module:slow"])
        [line] = [line for line in told(server) if line["agent_id"] == "module:slow"]
        assert line["line"].startswith("loop_blocking.py:") and line["line"].endswith(" in before_ai")


async def test_a_block_that_does_not_end_is_told_while_it_lasts(directory: Path) -> None:
    async with serving(cwd=directory) as server, chat(server.address) as client:
        await client.send({"message": "hello", "agent_id": "never_ending"})
        await eventually(lambda: len(told(server)) == 1)
        [line] = told(server)
        assert (line["agent_id"], line["node"]) == ("never_ending", "never_end")
        assert 800 <= line["blocked_ms"] < 2000 and "loop_blocking.py:" in line["line"]
        await server.stop(signal.SIGKILL)


async def test_a_process_that_was_suspended_has_not_blocked(directory: Path) -> None:
    async with serving(cwd=directory) as server, chat(server.address) as client:
        await client.send({"message": "hello", "agent_id": "going_on"})
        await client.until("started")
        await asyncio.sleep(0.5)
        server.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(1)
        server.process.send_signal(signal.SIGCONT)
        assert (await client.until("final"))["status"] == "ok"
        assert told(server) == []
        name = 'chat_event_loop_blocked_seconds_count{agent_id="going_on"}'
        assert await metric_at(server.internal, name) == 0
