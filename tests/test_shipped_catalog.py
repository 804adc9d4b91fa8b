"""The shipped catalog: it is right, it teaches, and what it proposes is understood without any key."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from graphs.talk import ask
from pydantic import BaseModel
from support.chat_client import final_text
from support.log_lines import logging_as_before
from support.running_server import running_server
from support.shipped_agents import BESIDE_THE_ASSISTANT, CATALOG, SHIPPED

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.catalog.catalog import AgentAccess, AgentChat, AgentSettings, AgentTuning, McpServerUse
from agentic_backend.agents.catalog.entry_parts import MiddlewareUse
from agentic_backend.auth.user import User
from agentic_backend.cli import main
from agentic_backend.experts.sentinel.operations import OPERATIONS
from agentic_backend.testing import Approve, open_agent


def keys() -> Iterator[str]:
    models: list[type[BaseModel]] = [AgentSettings, AgentAccess, AgentChat, AgentTuning, McpServerUse, MiddlewareUse]
    for model in models:
        yield from model.model_fields


def test_every_agent_is_served() -> None:
    manager = AgentManager.load(CATALOG, ["default"], [OPERATIONS])
    assert manager.problems == []
    ids = [agent.settings.id for agent in manager.served()]
    assert ids == ["assistant", "plain-chat", "note-taker", "careful", "sentinel", "documentation", "team"]
    assert manager.get(None, User(id="ann", name="Ann")).settings.id == "assistant"


def test_it_is_valid_with_the_shipped_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    with logging_as_before():
        assert main(["validate"]) == 0
    told = capfd.readouterr()
    assert told.out.startswith("7 agents can be served, 0 problems\n") and told.err == ""


@pytest.mark.parametrize("key", sorted(set(keys())))
def test_every_key_is_shown(key: str) -> None:
    lines = [line.strip().lstrip("#- ") for line in CATALOG.read_text().splitlines()]
    assert any(line.startswith(f"{key}:") for line in lines)


async def test_every_starter_is_understood_by_the_offline_model(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=BESIDE_THE_ASSISTANT) as server:
        for entry in (entry for entry in SHIPPED if "require_approval" not in entry):
            for starter in entry["chat"]["starters"]:
                if "slowly" in starter:
                    continue
                answer = final_text(await ask(server.address, starter, agent_id=entry["id"]))
                assert "is none of them" not in answer, starter
                assert "does not have" not in answer, starter


async def test_the_careful_one_asks_before_it_takes_its_time() -> None:
    [careful] = [entry for entry in SHIPPED if "require_approval" in entry]
    async with open_agent(careful["id"], catalog=CATALOG, answer=Approve()) as agent:
        for starter in careful["chat"]["starters"]:
            run = await agent.ask(starter)
            [request] = run.requests
            assert request.name == "slow_task"
            assert run.status == "ok"
