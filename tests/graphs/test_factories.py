"""A function that makes a graph gets what its parameters ask for, and may be a context that holds resources."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from graphs import factories
from graphs.talk import ask
from support.chat_client import chat, check_exchange, final_text
from support.rest_client import rest
from support.running_server import running_server

from agentic_backend.agents.agent_manager import AgentManager


def entry(name: str, agent_id: str = "", **fields: Any) -> dict[str, Any]:
    return {"id": agent_id or name, "class_path": f"graphs.factories:{name}", "tuning": {"fields": fields}}


@pytest.fixture(autouse=True)
def steps() -> Iterator[list[str]]:
    factories.steps.clear()
    factories.held.clear()
    factories.may_enter.clear()
    yield factories.steps


@pytest.mark.parametrize("name", ["by_config", "by_config_later", "uncompiled", "managed"])
@pytest.mark.parametrize("mode", ["chat", "query"])
async def test_a_function_gets_a_config_as_on_langgraph_platform(tmp_path: Path, name: str, mode: str) -> None:
    agent = entry(name, greeting="hello", user_id="somebody else")
    async with running_server(tmp_path, agents=[agent]) as server:
        events = await ask(server.address, "go", agent_id=name, mode=mode)
    thread = events[0]["session_id" if mode == "chat" else "exchange_id"]
    configurable = {"thread_id": thread, "user_id": "developer", "assistant_id": name, "greeting": "hello"}
    assert final_text(events) == f"{configurable} developer developer {name}"


@pytest.mark.parametrize(
    "name, fields, expected",
    [
        ("by_runtime", {}, "developer threads.create_run"),
        ("by_fields", {"greeting": "hi", "times": "2"}, "hihi OfflineChatModel default"),
        ("by_plain_fields", {"a": 1}, "{'a': 1}"),
        ("by_model", {}, "OfflineChatModel"),
        ("with_listed_options", {"a": 1}, "[]"),
    ],
)
async def test_a_parameter_gets_what_its_annotation_or_its_name_asks_for(
    tmp_path: Path, name: str, fields: dict[str, Any], expected: str
) -> None:
    async with running_server(tmp_path, agents=[entry(name, **fields)]) as server:
        assert final_text(await ask(server.address, "go", agent_id=name)) == expected


@pytest.mark.parametrize(
    "fields, told", [({}, "'greeting'"), ({"greeting": "hi", "tmies": 1}, "'tmies'"), ({"greeting": []}, "'greeting'")]
)
async def test_fields_that_do_not_fit_the_model_of_a_function_are_named(
    tmp_path: Path, fields: dict[str, Any], told: str
) -> None:
    async with (
        running_server(tmp_path, agents=[entry("by_fields", **fields)]) as server,
        chat(server.address) as client,
    ):
        [refused] = await client.ask("go", agent_id="by_fields")
    assert refused["code"] == "agent_unavailable"
    [problem] = AgentManager.load(tmp_path / "agents_catalog.yaml", ["default"]).problems
    assert told.strip("'") in f"{problem.where} {problem.message}"


@pytest.mark.parametrize("name", ["managed", "managed_in_thread"])
async def test_a_context_is_held_as_long_as_its_agent_is_warm(tmp_path: Path, name: str, steps: list[str]) -> None:
    async with running_server(tmp_path, agents=[entry(name)]) as server, rest(server) as http:
        session_id = (await ask(server.address, "go", agent_id=name))[0]["session_id"]
        await ask(server.address, "go", session_id=session_id)
        assert steps == ["entered"]
        await http.delete(f"/sessions/{session_id}")
        assert steps == ["entered", "left"]
        await ask(server.address, "go", agent_id=name)
    assert steps == ["entered", "left"] * 2, "the server's end leaves it"


@pytest.mark.parametrize(
    "name, told, done",
    [
        ("failing", "could not be started", []),
        ("managing_nothing", "returned no graph", ["entered", "left"]),
        ("endless", "could not be started", ["cancelled"]),
    ],
)
async def test_a_context_that_gives_no_graph_makes_its_agent_unavailable(
    tmp_path: Path, name: str, told: str, done: list[str], steps: list[str]
) -> None:
    settings = {"agents": {"build_timeout_s": 0.5}}
    async with running_server(tmp_path, agents=[entry(name)], settings=settings) as server:
        async with chat(server.address) as client:
            events = await client.ask("go", agent_id=name)
    check_exchange(events)
    error = events[-1]["error"]
    assert error["code"] == "agent_unavailable" and told in error["content"] and "secret" not in error["content"]
    assert steps == done


async def test_a_context_that_has_ended_on_its_own_is_told_and_entered_anew(
    tmp_path: Path, steps: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with running_server(tmp_path, agents=[entry("dying")]) as server:
        session_id = (await ask(server.address, "go", agent_id="dying"))[0]["session_id"]
        factories.held[0].set()
        async with asyncio.timeout(10):
            while "left" not in steps:
                await asyncio.sleep(0.01)
        assert final_text(await ask(server.address, "go", session_id=session_id)) == "alive"
        assert steps == ["entered", "left", "entered"]
    assert steps == ["entered", "left"] * 2
    [told] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert told.message == "graph context ended early" and told.agent_id == "dying"  # type: ignore[attr-defined]


async def test_a_context_that_a_thread_enters_too_late_is_left(tmp_path: Path, steps: list[str]) -> None:
    settings = {"agents": {"build_timeout_s": 0.2}}
    async with running_server(tmp_path, agents=[entry("slow_to_enter")], settings=settings) as server:
        async with chat(server.address) as client:
            events = await client.ask("go", agent_id="slow_to_enter")
        assert events[-1]["error"]["code"] == "agent_unavailable" and steps == []
        factories.may_enter.set()
        async with asyncio.timeout(10):
            while len(steps) < 2:
                await asyncio.sleep(0.01)
    assert steps == ["entered", "left"]


async def test_a_context_that_can_not_be_left_holds_nobody_up(tmp_path: Path) -> None:
    settings = {"agents": {"close_timeout_s": 0.2}}
    async with running_server(tmp_path, agents=[entry("never_left")], settings=settings) as server:
        assert final_text(await ask(server.address, "go", agent_id="never_left")) == "I stay"
