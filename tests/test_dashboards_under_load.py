"""No panel is empty: each query of each dashboard, asked of a real Prometheus that scrapes real servers under load.

Two workers and another server are on one database and one Redis. What people do there brings answers, errors, refusals,
tools, costs, titles, summaries, approvals, ratings and links, and agents and modules that fail and block.
"""

import asyncio
import contextlib
import math
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from services.mcp_echo import EchoServer, echo_server
from services.prometheus import RULES, Prometheus
from support.chat_client import ChatClient, chat
from support.dashboards import panel_queries
from support.fault_agents import MCP_ENTRY, write_catalog
from support.rest_client import PREFIX, plain_http
from support.running_server import ASSISTANT
from support.server_process import ServerProcess, serving
from websockets.exceptions import InvalidStatus

pytestmark = [pytest.mark.redis, pytest.mark.timeout(700, func_only=True)]

# Longer than the test: what has happened once is still in it.
INTERVAL = "30m"
PEOPLE = 3
"""At each server at once."""
MOST_ROUNDS, LONGEST_S = 4, 400
FORBIDDEN = "gazpacho"
EMPTY: dict[str, str] = {
    "saturation: Memory, and what is allowed (B)": "there is a limit only in a container or a unit that has one",
    "saturation: Share of the memory limit (A)": "the same",
}
SETTINGS: dict[str, Any] = {
    # A machine that is slow is no outage.
    "store": {"timeout_s": 30},
    "prices": [{"model": "*", "from": "2026-01-01", "input_per_million": 1, "output_per_million": 4}],
    "modules": {"file": "modules.yaml"},
    "chat_profiles": {"file": "chat_profiles.yaml"},
}
MODULES = [
    {"name": "words", "class_path": "agentic_backend.modules.words:WordFilter", "settings": {"words": [FORBIDDEN]}},
    # The offline model gives no verdict.
    {"name": "moderation", "class_path": "agentic_backend.modules.moderation:Moderation", "on_failure": "continue"},
]


@pytest.fixture
def directory(tmp_path: Path, mcp: EchoServer) -> Path:
    """What the servers are started with."""
    write_catalog(tmp_path, {**ASSISTANT, "default": False}, MCP_ENTRY)
    settings = {**SETTINGS, "mcp_servers": {"echo": mcp.settings()}}
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
    (tmp_path / "modules.yaml").write_text(yaml.safe_dump({"modules": MODULES}))
    (tmp_path / "chat_profiles.yaml").write_text(yaml.safe_dump({"profiles": {"default": {"max_history_turns": 2}}}))
    return tmp_path


@pytest.fixture
def mcp() -> Iterator[EchoServer]:
    with echo_server() as server:
        yield server


@pytest.fixture
async def servers(directory: Path, mongodb_url: str, redis_url: str) -> AsyncIterator[list[ServerProcess]]:
    """One with two workers, and one without."""
    arguments = ["--config", "settings.yaml", "--store", mongodb_url, "--broadcast", redis_url]
    async with serving(*arguments, "--workers", 2, cwd=directory) as workers:
        await workers.started(times=2)
        async with serving(*arguments, cwd=directory) as alone:
            yield [workers, alone]


@pytest.fixture
def prometheus(directory: Path, servers: list[ServerProcess]) -> Iterator[Prometheus]:
    """It scrapes each second, and evaluates the shipped rules as often."""
    (directory / "rules").mkdir()
    for path in RULES:
        (directory / "rules" / path.name).write_text(sooner(path.read_text()))
    targets = [str(server.internal).removeprefix("http://") for server in servers]
    prometheus = Prometheus(directory, targets, sorted((directory / "rules").iterdir()))
    prometheus.start()
    yield prometheus
    prometheus.stop()


def sooner(rules: str) -> str:
    """The same with a month of ten minutes, whose hours are seconds, and with no group that waits for minutes."""
    return re.sub(r"\binterval: \d+m", "interval: 1s", rules.replace("[30d:1h]", "[10m:1s]"))


async def test_no_panel_is_empty(prometheus: Prometheus, servers: list[ServerProcess]) -> None:
    empty = {query.name: query.expression for query in panel_queries(INTERVAL) if query.name not in EMPTY}
    give_up_at = time.monotonic() + LONGEST_S
    rounds = 0
    while empty and time.monotonic() < give_up_at:
        if rounds < MOST_ROUNDS:
            rounds += 1
            await asyncio.gather(*(one_visit(server.address) for server in servers for _ in range(PEOPLE)))
            for server in servers:
                server.process.send_signal(signal.SIGHUP)
        for name, expression in list(empty.items()):
            if any(not math.isnan(value) for _, value in await prometheus.query(expression)):
                del empty[name]
        # Chores come once a minute.
        await asyncio.sleep(0.5)
    assert empty == {}


async def one_visit(address: str) -> None:
    """What a person does within some seconds."""
    async with chat(address) as client, plain_http(base_url=address + PREFIX) as http:
        session_id = await talk(client)
        await fail(client, http, address)
        await approve(client, address)
        await use_session(http, session_id)


async def talk(client: ChatClient) -> str:
    """Ask the same session again and again, so that it is compacted; return its id."""
    events = await client.ask("hello", agent_id="assistant")
    session_id = str(events[0]["session_id"])
    for words in ("What time is it in Tokyo, and what is 1/0?", "write 30 words", "hello"):
        await client.ask(words, session_id=session_id)
    await client.ask("words 5 0 | note a | words 5 0", agent_id="scripted")
    await client.ask("words 5 0", agent_id="remote")
    return session_id


async def fail(client: ChatClient, http: httpx.AsyncClient, address: str) -> None:
    """What goes wrong: the model, code that blocks, a text, a call, a socket, a path."""
    await client.ask("fail at once", agent_id="assistant")
    await client.ask("freeze 0.4", agent_id="scripted")
    await client.ask(f"I like {FORBIDDEN}", agent_id="assistant")
    await client.ask("hello", agent_id="nobody")
    with contextlib.suppress(InvalidStatus):
        async with chat(address, origin="https://elsewhere.example"):
            pass
    assert (await http.get("/sessions/nothing")).status_code == 404


async def approve(client: ChatClient, address: str) -> None:
    """Somebody is asked, comes back over another connection, and approves there."""
    await client.send({"message": "send b | words 3 0", "agent_id": "approved"})
    first = await client.until("awaiting_human")
    async with chat(address) as later:
        await later.send({"type": "follow", "session_id": first["session_id"]})
        asked = await later.until("awaiting_human")
        decisions = [
            {"call_id": request["call_id"], "args_sha256": request["args_sha256"], "action": "approve"}
            for request in asked["payload"]["requests"]
        ]
        ids = {name: asked[name] for name in ("session_id", "exchange_id")}
        await later.send({"type": "human_resume", **ids, "payload": {"decisions": decisions}})
        await later.until("final")


async def use_session(http: httpx.AsyncClient, session_id: str) -> None:
    """Rate, share and delete it."""
    session = f"/sessions/{session_id}"
    assert (await http.put(f"{session}/messages/1/feedback", json={"rating": "up"})).status_code == 200
    link = (await http.post(f"{session}/shares", json={})).json()
    assert (await http.get(f"/shares/{link['secret']}")).status_code == 200
    assert (await http.delete(session)).is_success
