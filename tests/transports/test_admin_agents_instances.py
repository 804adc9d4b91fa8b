"""Agents of the database on several instances and workers: a change on one is served by all within seconds."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.admin_agents import ON, call, entry, served_ids
from support.chat_client import chat, final_text
from support.rest_client import rest
from support.running_server import RunningServer, running_server
from support.server_process import PATIENCE_S, ServerProcess, serving

# Threads of several servers check agents in one process here, and where Python's libraries ignore warnings for a while,
# that is for all threads: one may end it for another, whose warning would become an error of the agent.
pytestmark = pytest.mark.filterwarnings("default")

RARELY = 3600


@asynccontextmanager
async def two_servers(directory: Path, settings: dict[str, Any], **database: Any) -> AsyncIterator[list[RunningServer]]:
    async with AsyncExitStack() as stack:
        servers = []
        for name in ("here", "there"):
            (directory / name).mkdir()
            own = {**settings, "agents": {"database": {**ON, **database}}}
            servers.append(await stack.enter_async_context(running_server(directory / name, settings=own)))
        yield servers


async def until_served(server: RunningServer, is_so: Callable[[list[str]], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so(await served_ids(server)):
            await asyncio.sleep(0.05)


async def follow_each_other(here: RunningServer, there: RunningServer) -> None:
    assert (await call(here, "POST", "", {"yaml": entry()}))[0] == 201
    await until_served(there, lambda ids: "helper" in ids)
    async with chat(there.address) as client:
        assert (await client.ask("hello", agent_id="helper"))[-1]["status"] == "ok"
    assert (await call(there, "POST", "/helper/disable"))[0] == 200
    await until_served(here, lambda ids: "helper" not in ids)
    assert (await call(here, "POST", "/helper/enable"))[1]["version"] == 3


async def test_without_a_broadcast_each_instance_looks_by_itself(mongodb_url: str, tmp_path: Path) -> None:
    async with two_servers(tmp_path, {"store": {"url": mongodb_url}}) as (here, there):
        await follow_each_other(here, there)


@pytest.mark.redis
async def test_with_a_broadcast_the_others_look_at_once(mongodb_url: str, redis_url: str, tmp_path: Path) -> None:
    settings = {"store": {"url": mongodb_url}, "broadcast": {"url": redis_url}}
    async with two_servers(tmp_path, settings, look_every_s=RARELY) as (here, there):
        await follow_each_other(here, there)


async def test_of_two_instances_that_change_one_version_one_wins(mongodb_url: str, tmp_path: Path) -> None:
    async with two_servers(tmp_path, {"store": {"url": mongodb_url}}) as servers:
        await call(servers[0], "POST", "", {"yaml": entry()})
        bodies = [{"yaml": entry(more=f"tags: [t{n}]\n"), "version": 1} for n in range(6)]
        answers = await asyncio.gather(*(call(servers[n % 2], "PUT", "/helper", body) for n, body in enumerate(bodies)))
        # As text: pytest shortens what stands in lists.
        others = "\n".join(str(answer) for answer in answers if answer[0] not in (200, 409))
        assert sorted(status for status, _ in answers) == [200, 409, 409, 409, 409, 409], others


async def test_workers_of_one_server_serve_the_same(tmp_path: Path, mongodb_server: str) -> None:
    environment = {"AGENTIC_AGENTS__DATABASE__ENABLED": "true"}
    async with serving("--workers", 2, cwd=tmp_path, environment=environment) as parent:
        await parent.started(times=2)
        text = entry(class_path="agentic_backend.experts.assistant.assistant:Assistant")
        async with rest(parent) as client:
            assert (await client.post("/admin/agents", json={"yaml": text})).status_code == 201
        # Each connection reaches any of the workers.
        async with asyncio.timeout(PATIENCE_S):
            while not all([await is_served(parent) for _ in range(12)]):
                await asyncio.sleep(0.1)


async def is_served(parent: ServerProcess) -> bool:
    async with rest(parent) as client:
        return "helper" in [agent["id"] for agent in (await client.get("/agents")).json()["agents"]]


AUTHORS = """
from langgraph.graph import START, MessagesState, StateGraph

def say():
    graph = StateGraph(MessagesState)
    graph.add_node("say", lambda state: {{"messages": [("ai", "{text}")]}})
    graph.add_edge(START, "say")
    return graph.compile()
"""


async def test_a_reload_of_the_file_keeps_agents_of_the_database_with_their_new_code(tmp_path: Path) -> None:
    def write(text: str, *more: str) -> None:
        (tmp_path / "saying_it.py").write_text(AUTHORS.format(text=text))
        entries = [{"id": name, "class_path": "saying_it:say"} for name in ("first", *more)]
        (tmp_path / "agents_catalog.yaml").write_text(yaml.safe_dump({"agents": entries}))

    write("one")
    environment = {
        "AGENTIC_AGENTS__DATABASE__ENABLED": "true",
        "AGENTIC_AGENTS__DATABASE__CLASSES": '["saying_it:*"]',
    }
    async with serving(cwd=tmp_path, environment=environment) as server, chat(server.address) as client:
        async with rest(server) as http:
            text = entry(class_path="saying_it:say")
            assert (await http.post("/admin/agents", json={"yaml": text})).status_code == 201
        first = await client.ask("hello", agent_id="helper")
        assert final_text(first) == "one"
        write("two", "second")
        os.kill(server.pid, signal.SIGHUP)
        async with asyncio.timeout(PATIENCE_S):
            while final_text(await client.ask("hello", agent_id="helper")) != "two":
                await asyncio.sleep(0.05)
        async with rest(server) as http:
            agents = (await http.get("/agents")).json()["agents"]
        assert [agent["id"] for agent in agents] == ["first", "second", "helper"]
        # The session goes on with the new code.
        again = await client.ask("hello", agent_id="helper", session_id=first[0]["session_id"])
        assert final_text(again) == "two"


async def test_a_reload_without_an_agent_that_one_of_the_database_leads_is_served_without_its_leader(
    tmp_path: Path,
) -> None:
    def write(*names: str) -> None:
        entries = [{"id": name, "class_path": "saying_it:say"} for name in names]
        (tmp_path / "agents_catalog.yaml").write_text(yaml.safe_dump({"agents": entries}))

    async def ids(http: Any) -> list[str]:
        return [agent["id"] for agent in (await http.get("/agents")).json()["agents"]]

    (tmp_path / "saying_it.py").write_text(AUTHORS.format(text="one"))
    write("first", "second")
    environment = {"AGENTIC_AGENTS__DATABASE__ENABLED": "true"}
    async with serving(cwd=tmp_path, environment=environment) as server, rest(server) as http:
        leader = "id: helper\nname: Helper\ntype: leader\ncrew: [second]\nmodel: default\n"
        assert (await http.post("/admin/agents", json={"yaml": leader})).status_code == 201
        assert await ids(http) == ["first", "second", "helper"]
        write("first")
        os.kill(server.pid, signal.SIGHUP)
        async with asyncio.timeout(PATIENCE_S):
            while await ids(http) != ["first"]:
                await asyncio.sleep(0.05)
        [told] = [agent for agent in (await http.get("/admin/agents")).json()["agents"] if agent["id"] == "helper"]
        assert not told["served"] and told["problems"]
        write("first", "second")
        os.kill(server.pid, signal.SIGHUP)
        async with asyncio.timeout(PATIENCE_S):
            while await ids(http) != ["first", "second", "helper"]:
                await asyncio.sleep(0.05)


async def test_with_agents_of_the_database_the_file_may_have_none(tmp_path: Path) -> None:
    catalog = tmp_path / "agents_catalog.yaml"
    catalog.write_text("agents: []\n")
    environment = {"AGENTIC_AGENTS__DATABASE__ENABLED": "true"}
    async with serving(cwd=tmp_path, environment=environment) as server, rest(server) as http:
        assert (await http.get("/agents")).json()["agents"] == []
        async with chat(server.address) as client:
            refusal = await client.ask("hello")
            assert refusal[-1]["code"] == "forbidden"
        assert (await http.post("/admin/agents", json={"yaml": "id: helper\nmodel: default\n"})).status_code == 201
        async with chat(server.address) as client:
            assert (await client.ask("hello"))[-1]["status"] == "ok"
