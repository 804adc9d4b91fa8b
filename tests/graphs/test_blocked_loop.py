"""Asynchronous code that blocks the event loop is found: who blocks, in which node, on which line."""

import asyncio
import logging
import time
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any

import pytest
from graphs import loop_blocking
from graphs.talk import activities, ask
from langchain_core.runnables.config import var_child_runnable_config
from support.chat_client import Event, chat
from support.recorded_agents import metric
from support.rest_client import metric_at
from support.running_server import RunningServer, running_server
from support.signing_realm import signing_realm
from support.stalls import stall_watched

from agentic_backend.agents.run.at_work import AtWork, at_work, found_at_work
from agentic_backend.kpi import Kpi
from agentic_backend.loop.blocked_loop import Worker, watched_loop

LIMIT_MS = 250
"""The default of `agents.blocking_s`."""
BLOCKED_COUNT = "chat_event_loop_blocked_seconds_count"
MESSAGES = {"with-tool": 'call look_up(word="x")', "leader": 'call ask_expert(question="x")'}
_TARGETS = {
    "sleeping": "sleeping",
    "computing": "computing",
    "waiting": "waiting",
    "often": "often",
    "in-a-thread": "in_a_thread",
    "with-tool": "with_tool",
    "starting": "Starting",
    "expert": "Expert",
}
AGENTS: list[dict[str, Any]] = [
    *({"id": id, "class_path": f"graphs.loop_blocking:{target}"} for id, target in _TARGETS.items()),
    {"id": "leader", "class_path": "graphs.loop_blocking:Leader", "type": "leader", "crew": ["expert"]},
]


def marked(comment: str) -> int:
    """The number of the line with this comment."""
    lines = Path(loop_blocking.__file__).read_text().splitlines()
    [number] = [number for number, line in enumerate(lines, 1) if line.endswith(f"# line: {comment}")]
    return number


def blocks(events: list[Event]) -> list[Any]:
    return [data for data in activities(events, "progress") if "blocked_ms" in data]


def warnings(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Those about agents: what a test does in the same loop, such as making a key, may block it too."""
    told = [vars(record) for record in caplog.records if record.name == "agentic_backend.loop.blocked_loop"]
    return [one for one in told if "agent_id" in one]


async def count(server: RunningServer, agent_id: str) -> float:
    return await metric_at(server.internal, f'{BLOCKED_COUNT}{{agent_id="{agent_id}"}}')


@pytest.mark.parametrize(
    ("agent_id", "blamed", "node", "line"),
    [
        ("sleeping", "sleeping", "sleep", "sleeps"),
        ("computing", "computing", "compute", "computes"),
        ("with-tool", "with-tool", "tools", "looks up"),
        ("starting", "starting", None, "starts"),
        ("leader", "expert", "sleep", "sleeps"),
    ],
)
async def test_the_line_that_blocks_is_told(
    server: RunningServer,
    caplog: pytest.LogCaptureFixture,
    agent_id: str,
    blamed: str,
    node: str | None,
    line: str,
) -> None:
    caplog.set_level(logging.WARNING)
    events = await ask(server.address, MESSAGES.get(agent_id, "hello"), agent_id=agent_id)
    [told] = warnings(caplog)
    assert (told["agent_id"], told["node"], told["exchange_id"]) == (blamed, node, events[0]["exchange_id"])
    number = marked(line)
    assert "loop_blocking.py:" in told["line"]
    assert int(told["line"].rpartition(":")[2].split()[0]) in range(number - 1, number + 1)
    # Time in which the process got no processor is left out.
    assert LIMIT_MS <= told["blocked_ms"] < 5000
    assert await count(server, blamed) == 1
    # Developers see it beside the answer.
    [shown] = blocks(events)
    assert {name: shown[name] for name in ("node", "line")} == {name: told[name] for name in ("node", "line")}
    assert blamed in shown["message"] and shown["blocked_ms"] >= LIMIT_MS


@pytest.mark.parametrize("agent_id", ["waiting", "in-a-thread", "often"])
async def test_what_lets_others_run_is_no_block(
    server: RunningServer, caplog: pytest.LogCaptureFixture, agent_id: str
) -> None:
    while True:
        before = await count(server, agent_id)
        caplog.clear()
        with stall_watched() as stalled_s:
            events = await ask(server.address, "hello", agent_id=agent_id)
        if stalled_s() * 1000 < LIMIT_MS / 2:
            break
    assert blocks(events) == [] and await count(server, agent_id) == before
    assert [told for told in warnings(caplog) if told["agent_id"] == agent_id] == []


async def test_a_line_that_blocks_again_and_again_is_logged_once_and_counted_each_time(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        assert len(blocks(await ask(server.address, "hello", agent_id="sleeping"))) == 1
    assert len(warnings(caplog)) == 1
    assert await count(server, "sleeping") == 2


async def test_whoever_signs_in_sees_nothing_of_the_code(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with signing_realm() as realm:
        auth = {"mode": "keycloak", "keycloak": {"realm_url": realm.url}}
        async with running_server(tmp_path, agents=AGENTS, settings={"auth": auth}) as server:
            async with chat(server.address, token=realm.sign()) as client:
                events = await client.ask("hello", agent_id="sleeping")
            assert events[-1]["status"] == "ok" and blocks(events) == []
            assert await count(server, "sleeping") == 1
    assert len(warnings(caplog)) == 1


async def test_the_watch_goes_on_though_a_look_fails(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    workers: list[Worker | None] = []

    def worker_of(context: Context) -> Worker | None:
        if not workers:
            workers.append(None)
            raise AttributeError("an author's")
        return AtWork("desk", {}, lambda _: None)

    with watched_loop(Kpi(), 0.1, worker_of):
        for _ in range(2):
            time.sleep(0.5)
            await asyncio.sleep(0.1)
    ours = [record for record in caplog.records if record.name == "agentic_backend.loop.blocked_loop"]
    assert len([record for record in ours if record.exc_info]) == 1
    assert [told["agent_id"] for told in warnings(caplog)] == ["desk"]


async def test_a_block_that_others_follow_at_once_is_counted() -> None:
    kpi = Kpi()

    async def block(agent_id: str, blocked_s: float) -> None:
        with at_work(AtWork(agent_id, {}, lambda _: None)):
            time.sleep(blocked_s)

    with watched_loop(kpi, 0.3, found_at_work):
        await asyncio.gather(block("long", 2.0), *(block("short", 0.2) for _ in range(4)))
        await asyncio.sleep(0.2)
    counted = {agent_id: metric(kpi, BLOCKED_COUNT, agent_id=agent_id) for agent_id in ("long", "short")}
    assert counted == {"long": 1, "short": 0}


def test_a_task_without_metadata_is_at_work() -> None:
    def context_at_work() -> Context:
        var_child_runnable_config.set({"metadata": None})  # type: ignore[typeddict-item]
        with at_work(AtWork("desk", {}, lambda _: None)):
            return copy_context()

    found = found_at_work(copy_context().run(context_at_work))
    assert found is not None and (found.agent_id, found.node) == ("desk", None)


async def test_it_can_be_switched_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_server(tmp_path, agents=AGENTS, settings={"agents": {"blocking_s": None}}) as server:
        assert blocks(await ask(server.address, "hello", agent_id="sleeping")) == []
        assert await count(server, "sleeping") == 0
    assert warnings(caplog) == []
