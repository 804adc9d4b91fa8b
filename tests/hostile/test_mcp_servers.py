"""An MCP server that misbehaves holds up nobody but the call that it was asked for."""

import time
from pathlib import Path

import pytest
import yaml
from hostile.memory import MIB, most_resident
from hostile.sizes import sized
from services.mcp_hostile import TRANSPORTS, hostile_server
from support.bystander import bystander
from support.chat_client import chat, check_exchange
from support.fault_agents import MCP_ENTRY, write_catalog
from support.figures import figure
from support.further_cases import all_but_first
from support.server_process import serving

ATTACKS = {
    "progress": 20_000,
    "blocks": 100_000,
    "text": 100 * MIB,
    "long_progress": MIB,
    "logs": 20_000,
    "late_method": 20_000,
    "requests": 5_000,
    "garbage": 20_000,
    "structured": 500_000,
    "image": 20 * MIB,
    "nesting": 4 * MIB,
    "error": 20 * MIB,
    "pattern": 60,
}
FELT_S = 3.0
"""The slowest answer to somebody else. Without a bound, one of these attacks alone costs everybody 16 s."""

MEMORY = 3 * ATTACKS["text"] // 2
"""More than the largest text, and less than two of it."""


@pytest.mark.parametrize("transport", all_but_first(*TRANSPORTS))
async def test_a_server_that_floods_its_client_holds_up_nobody(directory: Path, transport: str) -> None:
    write_catalog(directory, MCP_ENTRY)
    config = directory / "settings.yaml"
    rounds = sized(1, 5)
    with hostile_server(transport) as settings:
        config.write_text(yaml.safe_dump({"mcp_servers": {"echo": settings}}))
        async with serving("--config", config, cwd=directory) as server, chat(server.address) as client:
            before = (await client.ask("blocks 1 | words 1 0", agent_id="remote"))[-1]
            session, memory = before["session_id"], most_resident(server.pid)
            began = time.monotonic()
            async with bystander(server.address, server.internal) as felt:
                for _ in range(rounds):
                    script = " | ".join(f"{name} {size}" for name, size in ATTACKS.items())
                    events = await client.ask(f"{script} | words 3 0", agent_id="remote", session_id=session)
                    check_exchange(events)
                    assert events[-1]["status"] == "ok"
            took_s, more = time.monotonic() - began, most_resident(server.pid) - memory
    slowest = {name: f"{seconds * 1000:.0f} ms" for name, seconds in felt.slowest_s.items()}
    figure(
        f"{transport}: {rounds * len(ATTACKS)} attacks in {took_s:.0f} s; "
        f"slowest answers to others {slowest}, memory {more / MIB:+.0f} MiB"
    )
    assert felt.waited_at_most(FELT_S)
    assert more < MEMORY
