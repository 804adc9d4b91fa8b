"""MCP servers over stdio through the whole server: no program is held for nobody, and one may serve all."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from services.mcp_echo import echo_over_stdio
from support.chat_client import ChatClient, chat, check_exchange
from support.mcp_agents import MODULE
from support.processes import children, is_there
from support.recorded_agents import eventually
from support.running_server import RunningServer, running_server

AGENTS = [
    {"id": name, "class_path": f"{MODULE}:ToolUser", "tuning": {"mcp_servers": [{"id": name}]}}
    for name in ("brief", "shared")
]
SENTINEL = {
    "id": "watch",
    "class_path": "agentic_backend.experts.sentinel.sentinel_expert:SentinelExpert",
    "tuning": {"mcp_servers": [{"id": "operations"}]},
}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    servers = {"brief": echo_over_stdio(idle_s=1), "shared": echo_over_stdio(shared=True)}
    agents = [*AGENTS, SENTINEL]
    async with running_server(tmp_path, agents=agents, settings={"mcp_servers": servers}) as server:
        yield server


async def result(client: ChatClient, message: str, **fields: Any) -> str:
    events = await client.ask(message, **fields)
    check_exchange(events)
    parts = [part for message in events[-1]["messages"] for part in message["parts"]]
    [told] = [part for part in parts if part["type"] == "tool_result"]
    assert told["ok"] is True, told
    return str(told["content"])


async def ended(process: int) -> None:
    await eventually(lambda: not is_there(process))


def operations_servers() -> list[int]:
    return [pid for pid in children(os.getpid()) if b"operations_server" in Path(f"/proc/{pid}/cmdline").read_bytes()]


async def test_programs_end_while_their_sessions_stay_and_come_back_with_the_next_ask(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def session(client: ChatClient) -> tuple[str, int]:
        process = int(await result(client, "call process_id()", agent_id="brief"))
        return client.events[-1]["session_id"], process

    async with chat(server.address) as ann, chat(server.address) as bob:
        sessions = [await session(client) for client in (ann, bob)]
        assert sessions[0][1] != sessions[1][1], "each session has a program of its own"
        for _, process in sessions:
            await ended(process)
        for client, (session_id, process) in zip((ann, bob), sessions, strict=True):
            assert int(await result(client, "call process_id()", session_id=session_id)) != process
    warned = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert not [record for record in warned if record.name.startswith("agentic_backend.mcp")]


async def test_sessions_of_several_users_share_one_program(server: RunningServer) -> None:
    async def ask(user: str, message: str) -> str:
        async with chat(server.address, token=f"dev:{user}") as client:
            return await result(client, message, agent_id="shared")

    users = [f"user{number}" for number in range(4)]
    [process] = set(await asyncio.gather(*(ask(user, "call process_id()") for user in users)))
    told = await asyncio.gather(*(ask(user, f'call echo(text="for {user}")') for user in users))
    assert told == [f"for {user}" for user in users]
    assert is_there(int(process))


async def test_all_who_watch_the_server_share_one_operations_server(server: RunningServer) -> None:
    async with chat(server.address) as client:
        for _ in range(2):
            assert "alive and ready" in await result(client, "call server_health()", agent_id="watch")
    assert len(operations_servers()) == 1
