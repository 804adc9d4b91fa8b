"""Expiry: what nobody decides in time ends, also if its agent or its checkpoint is gone; a broken agent delays it."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from support import approval_agents
from support.recorded_agents import echoing_graph, eventually
from support.sessions import USER, Sessions, events_of, open_sessions, until

from agentic_backend.agents.agent_manager import AgentManager, CatalogAgent
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.errors import AgentUnavailable
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.stores.records import ExchangeRecord

LIMITS = LimitsSettings(human_timeout_s=0.05)
AGENTS = {"approving": approval_agents.approving, "echo": echoing_graph()}
LEASE_S = 0.9
"""Maintenance looks for overdue exchanges three times as often."""


async def overdue(sessions: Sessions) -> ExchangeLog:
    """The log of an exchange that waits for an approval and is overdue; it does not expire until the store is back."""
    sessions.store.go_away("expired_exchanges")
    log = await sessions.begin(approval_agents.calls(("send_email", {"to": "ann"})), agent_id="approving")
    await until(log, "awaiting_human")
    async with asyncio.timeout(10):
        while not await sessions.store.real.expired_exchanges(sessions.store.now()):
            await asyncio.sleep(0.01)
    return log


async def record_of(sessions: Sessions, log: ExchangeLog) -> ExchangeRecord:
    record = await sessions.store.real.get_exchange(log.exchange_id)
    assert record is not None
    return record


async def test_an_exchange_whose_agent_is_gone_is_stopped_and_its_session_goes_on(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, AGENTS, limits=LIMITS) as sessions:
        log = await overdue(sessions)
    async with open_sessions(tmp_path, {"echo": AGENTS["echo"]}, limits=LIMITS, lease_s=LEASE_S) as sessions:
        await sessions.idle(log.session_id)
        assert (await record_of(sessions, log)).status is ExchangeStatus.STOPPED
        events = await sessions.ask("hello", session_id=log.session_id, agent_id="echo")
        assert events[-1]["status"] == "ok"


async def test_an_exchange_whose_checkpoint_is_gone_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(exchange_id: str) -> None:
        return None

    async with open_sessions(tmp_path, AGENTS, limits=LIMITS, lease_s=LEASE_S) as sessions:
        log = await overdue(sessions)
        monkeypatch.setattr(sessions.store.real, "checkpoint", nothing)
        sessions.store.come_back()
        assert (await events_of(log))[-1]["status"] == "stopped"
        await sessions.idle(log.session_id)


async def test_an_exchange_whose_agent_is_broken_waits_until_it_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def broken(self: Any, agent_id: str) -> CatalogAgent:
        asked.append(agent_id)
        raise AgentUnavailable

    async with open_sessions(tmp_path, AGENTS, limits=LIMITS, lease_s=LEASE_S) as sessions:
        log = await overdue(sessions)
        with monkeypatch.context() as broken_for_now:
            broken_for_now.setattr(AgentManager, "entry", broken)
            sessions.store.come_back()
            # At the second try the first one is over.
            await eventually(lambda: len(asked) > 1)
            assert (await record_of(sessions, log)).status is ExchangeStatus.AWAITING_HUMAN
        assert (await events_of(log))[-1]["status"] == "ok"
        assert [decision.action for decision in (await record_of(sessions, log)).decisions] == ["expire"]


@pytest.mark.parametrize("how", ["is stopped", "expires"])
async def test_an_exchange_that_ends_while_it_waits_is_logged_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    caplog.set_level(logging.INFO, "agentic_backend")
    async with open_sessions(tmp_path, AGENTS, limits=LIMITS, lease_s=LEASE_S) as sessions:
        log = await overdue(sessions)
        if how == "is stopped":
            await sessions.orchestrator.stop(USER, log.session_id, None)
        else:
            monkeypatch.setattr("agentic_backend.sessions.waiting.waiting_exchanges.expired", lambda *_: None)
            sessions.store.come_back()
        await events_of(log)
        record = await record_of(sessions, log)
        [line] = await ended_lines(caplog)
    fields = {name: getattr(line, name) for name in ("request_id", "exchange_id", "session_id", "agent_id", "status")}
    assert fields == {
        "request_id": "request",
        "exchange_id": log.exchange_id,
        "session_id": log.session_id,
        "agent_id": "approving",
        "status": "stopped",
    }
    assert line.levelno == logging.INFO and line.__dict__["latency_ms"] == record.ran_ms


async def ended_lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The lines about ended exchanges, of which there is one soon after the end is shown."""

    def lines() -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.getMessage() == "exchange ended"]

    await eventually(lines)
    return lines()
