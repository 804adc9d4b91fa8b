"""SIGHUP to a real server: it serves the new catalog, or goes on with the old one, and what runs goes on."""

import asyncio
import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.chat_client import ChatClient, chat, check_exchange, final_text
from support.log_lines import problems
from support.recorded_agents import eventually
from support.reloads import ASSISTANT, agents_at, catalog, console_says
from support.rest_client import PREFIX, metric_at, plain_http
from support.server_process import ServerProcess, command, serving

SAYING = """
import asyncio, pathlib, time
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from said import TEXT

while pathlib.Path("slow").exists():
    pathlib.Path("imports").touch()
    time.sleep(0.02)

def graph_of(node):
    graph = StateGraph(MessagesState)
    graph.add_node("say", node)
    graph.add_edge(START, "say")
    return graph

def say():
    with open("built", "a") as built:
        built.write(TEXT)
    async def node(state):
        pathlib.Path("begun").touch()
        while pathlib.Path("hold").exists():
            await asyncio.sleep(0.02)
        return {"messages": [("ai", TEXT)]}
    return graph_of(node)

def ask():
    return graph_of(lambda state: {"messages": [("ai", interrupt("Which one?"))]})
"""
OTHER = """
from saying import graph_of

def tell():
    return graph_of(lambda state: {"messages": [("ai", "other")]})
"""
# Tells all that it is given: the text of an exception is in the log, whole at level debug.
TELLING = """
from saying import graph_of

def telling(fields):
    def node(state):
        raise ConnectionError(f"refused: {dict(fields)}")
    return graph_of(node)
"""
# Tells when it is closed.
CLOSING = """
from contextlib import asynccontextmanager
from said import TEXT
from saying import say

@asynccontextmanager
async def closing():
    yield say()
    with open("closed", "a") as closed:
        closed.write(TEXT + ";")
"""
SAY = {"id": "say", "class_path": "saying:say", "name": "First"}
ASK = {"id": "ask", "class_path": "saying:ask"}
HELLO = {"id": "hello", "class_path": "greeting:hello"}


def write(directory: Path, *entries: dict[str, Any], text: str = "one") -> None:
    """The catalog, and modules of agents that say `text`."""
    (directory / "said.py").write_text(f"TEXT = {text!r}\n")
    (directory / "saying.py").write_text(SAYING)
    catalog(directory, *entries)


def lines(server: ServerProcess, message: str) -> list[dict[str, Any]]:
    # The last line may be there only in part.
    whole = server.stderr.rpartition("\n")[0].splitlines()
    found = [json.loads(line) for line in whole if line.startswith("{")]
    return [line for line in found if line["message"] == message]


async def hung_up(server: ServerProcess, message: str = "catalog reloaded") -> dict[str, Any]:
    """Send a SIGHUP, and return the line that it leads to."""
    before = len(lines(server, message))
    server.process.send_signal(signal.SIGHUP)
    await eventually(lambda: len(lines(server, message)) > before)
    return lines(server, message)[-1]


async def test_a_hangup_swaps_the_catalog_the_profiles_and_the_log_level(tmp_path: Path) -> None:
    write(tmp_path, SAY, ASK)
    settings, profiles = tmp_path / "settings.yaml", tmp_path / "profiles.yaml"
    named = {"chat_profiles": {"file": str(profiles)}}
    settings.write_text(yaml.safe_dump({**named, "log": {"level": "info"}}))
    profiles.write_text("profiles: {}\n")
    began = time.time()
    async with serving("--config", settings, cwd=tmp_path) as server:
        loaded_at = await metric_at(server.internal, "chat_catalog_loaded_timestamp_seconds")
        assert began <= loaded_at <= time.time()
        write(tmp_path, {**SAY, "name": "Second"}, {**SAY, "id": "more"})
        settings.write_text(yaml.safe_dump({**named, "log": {"level": "debug"}, "limits": {"max_running": 7}}))
        profiles.write_text("profiles: {mine: {}}\ndefault_profile: mine\n")
        line = await hung_up(server)
        assert (line["added"], line["changed"], line["removed"]) == (["more"], ["say"], ["ask"])
        assert (line["log_level"], line["needs_restart"]) == ("debug", ["limits.max_running"])
        assert await agents_at(server.address) == {"say": "Second", "more": "First"}
        async with plain_http() as http:
            shown = (await http.get(f"{server.address}{PREFIX}/agents")).json()["chat_profiles"]
        assert [profile["name"] for profile in shown if profile["default"]] == ["mine"]
        assert await metric_at(server.internal, 'chat_reloads_total{outcome="ok"}') == 1
        assert await metric_at(server.internal, 'chat_reloads_total{outcome="failed"}') == 0
        assert await metric_at(server.internal, "chat_catalog_loaded_timestamp_seconds") > loaded_at
        settings.write_text(yaml.safe_dump({**named, "log": {"level": "error"}}))
        server.process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(30):
            while await metric_at(server.internal, 'chat_reloads_total{outcome="ok"}') < 2:
                await asyncio.sleep(0.05)
        assert len(lines(server, "catalog reloaded")) == 1, "the second is below the level that it has set"
        assert await server.stop() == 0


async def test_what_runs_ends_as_it_began_and_the_next_exchange_is_with_the_changed_agent(tmp_path: Path) -> None:
    write(tmp_path, SAY, HELLO)
    (tmp_path / "greeting.py").write_text("from saying import say as hello\n")
    (tmp_path / "hold").touch()
    async with serving(cwd=tmp_path) as server, chat(server.address) as client, chat(server.address) as gone:
        session_id = await begun(client, tmp_path, "say")
        await begun(gone, tmp_path, "hello")
        write(tmp_path, SAY, text="two")
        line = await hung_up(server)
        assert (line["changed"], line["removed"]) == (["say"], ["hello"])
        refusal = await other_ask(server, "hello")
        assert (refusal["type"], refusal["code"]) == ("error", "agent_not_found")
        (tmp_path / "hold").unlink()
        for running in (client, gone):
            await running.until("final")
            events = [event for event in running.events if event["type"] != "session"]
            check_exchange(events)
            assert (events[-1]["status"], final_text(events)) == ("ok", "one")
        assert final_text(await client.ask("again", session_id=session_id)) == "two"
        # The cache has let go of the agent that was removed.
        assert await metric_at(server.internal, 'chat_cached_agents{agent_id="say"}') == 1
        assert await server.stop() == 0
        assert "Traceback" not in server.stderr


async def test_warm_agents_of_a_changed_entry_close_the_idle_ones_at_once_and_one_in_use_after_its_exchange(
    tmp_path: Path,
) -> None:
    write(tmp_path, {"id": "closing", "class_path": "closing:closing"})
    (tmp_path / "closing.py").write_text(CLOSING)
    closed = tmp_path / "closed"
    closed.touch()
    async with serving(cwd=tmp_path) as server, chat(server.address) as idle, chat(server.address) as running:
        await idle.ask("go", agent_id="closing")
        (tmp_path / "hold").touch()
        session_id = await begun(running, tmp_path, "closing")
        (tmp_path / "said.py").write_text("TEXT = 'two'\n")
        assert (await hung_up(server))["changed"] == ["closing"]
        await eventually(lambda: closed.read_text() == "one;")
        assert await metric_at(server.internal, 'chat_cached_agents{agent_id="closing"}') == 1
        (tmp_path / "hold").unlink()
        await running.until("final")
        await eventually(lambda: closed.read_text() == "one;one;")
        assert await metric_at(server.internal, 'chat_cached_agents{agent_id="closing"}') == 0
        assert final_text(await running.ask("again", session_id=session_id)) == "two"
        assert await server.stop() == 0
    assert closed.read_text() == "one;one;two;"


async def begun(client: ChatClient, directory: Path, agent_id: str) -> str:
    (directory / "begun").unlink(missing_ok=True)
    await client.send({"message": "go", "agent_id": agent_id})
    session_id: str = (await client.until("started"))["session_id"]
    await eventually((directory / "begun").exists)
    return session_id


async def other_ask(server: ServerProcess, agent_id: str) -> dict[str, Any]:
    async with chat(server.address) as client:
        return (await client.ask("hello", agent_id=agent_id))[-1]


async def test_agents_that_have_not_changed_stay_warm(tmp_path: Path) -> None:
    write(tmp_path, SAY, ASK)
    (tmp_path / "other.py").write_text(OTHER)
    async with serving(cwd=tmp_path) as server, chat(server.address) as client:
        session_id = (await client.ask("go", agent_id="say"))[-1]["session_id"]
        catalog(tmp_path, {**ASK, "name": "Changed"}, {"id": "tell", "class_path": "other:tell"}, SAY)
        line = await hung_up(server)
        assert (line["changed"], line["added"]) == (["ask"], ["tell"])
        assert final_text(await client.ask("again", session_id=session_id)) == "one"
        assert (tmp_path / "built").read_text() == "one"
        assert await server.stop() == 0


async def test_what_waits_for_a_person_of_a_removed_agent_waits_until_the_agent_is_back(tmp_path: Path) -> None:
    write(tmp_path, SAY, ASK)
    async with serving(cwd=tmp_path) as server, chat(server.address) as client:
        await client.send({"message": "go", "agent_id": "ask"})
        waiting = await client.until("awaiting_human")
        [request] = waiting["payload"]["requests"]
        frame = {name: waiting[name] for name in ("session_id", "exchange_id")}
        frame |= {"type": "human_resume", "payload": {"answers": {request["interrupt_id"]: "left"}}}
        catalog(tmp_path, SAY)
        await hung_up(server)
        await client.send(frame)
        refusal = await client.until("error")
        assert (refusal["refused"], refusal["code"]) == ("human_resume", "agent_not_found")
        catalog(tmp_path, SAY, ASK)
        await hung_up(server)
        await client.send(frame)
        final = await client.until("final")
        assert final["status"] == "ok" and final_text([final]) == "left"
        assert await server.stop() == 0


async def test_the_log_knows_the_secrets_of_the_catalog_and_of_the_one_that_follows(tmp_path: Path) -> None:
    def telling(canary: str) -> dict[str, Any]:
        fields = {"badge_token": f"{canary}badge", "desk": f"https://desk:{canary}door@example.invalid/"}
        return {"id": "telling", "class_path": "telling:telling", "tuning": {"fields": fields}}

    (tmp_path / "telling.py").write_text(TELLING)
    write(tmp_path, telling("quokka"))
    async with serving("--log-level", "debug", cwd=tmp_path) as server, chat(server.address) as client:
        await client.ask("tell", agent_id="telling")
        catalog(tmp_path, telling("wombat"))
        await hung_up(server)
        await client.ask("tell", agent_id="telling")
        async with plain_http() as http:
            tail = (await http.get(f"{server.internal}/log")).text
        assert await server.stop() == 0
    for log in (server.stderr, tail):
        told = [line for line in log.splitlines() if "refused: " in line]
        assert len(told) == 2 and all(line.count("[redacted]") >= 2 for line in told)
        assert "quokka" not in log and "wombat" not in log


@pytest.mark.parametrize("broken", ["catalog", "entry", "module", "settings", "model"])
async def test_what_is_broken_changes_nothing_and_is_told_as_validate_tells_it(tmp_path: Path, broken: str) -> None:
    write(tmp_path, SAY, ASK)
    settings = tmp_path / "settings.yaml"
    settings.write_text("log: {level: info}\n")
    async with serving("--config", settings, cwd=tmp_path) as server, chat(server.address) as client:
        before = await agents_at(server.address)
        match broken:
            case "catalog":
                (tmp_path / "agents_catalog.yaml").write_text("agents: [\n")
            case "entry":
                catalog(tmp_path, {**SAY, "name": "New", "modle": "x"}, ASK)
            case "module":
                (tmp_path / "said.py").write_text("TEXT = 'two'\n\nif True\n")
            case "settings":
                settings.write_text("log: {level: info}\nserver: {prot: 1}\n")
            case "model":
                catalog(tmp_path, SAY, ASK, {**ASSISTANT, "model": "openai:gpt-5.5"})
        line = await hung_up(server, "catalog not reloaded")
        assert line["level"] == "error"
        async with command("validate", "--config", settings, cwd=tmp_path) as validating:
            assert await validating.ended() == (0 if broken == "model" else 2)
            if broken == "model":
                assert "the model 'openai:gpt-5.5' can't be built" in line["problems"][0]
            else:
                assert line["problems"] == problems(validating.stderr)
        assert await agents_at(server.address) == before
        assert final_text(await client.ask("go", agent_id="say")) == "one"
        assert await metric_at(server.internal, 'chat_reloads_total{outcome="failed"}') == 1
        assert await metric_at(server.internal, "chat_last_reload_ok") == 0
        settings.write_text("log: {level: info}\n")
        write(tmp_path, SAY, ASK, text="three")
        assert (await hung_up(server))["changed"] == ["say", "ask"]
        assert await metric_at(server.internal, "chat_last_reload_ok") == 1
        assert final_text(await client.ask("go", agent_id="say")) == "three"
        assert await server.stop() == 0


async def test_a_problem_from_the_start_keeps_no_other_change_out(tmp_path: Path) -> None:
    missing = {"id": "missing", "class_path": "not_there:agent"}
    write(tmp_path, SAY, missing)
    async with serving(cwd=tmp_path) as server:
        catalog(tmp_path, ASK, {**SAY, "name": "Second"}, missing)
        assert (await hung_up(server))["changed"] == ["say"]
        assert await agents_at(server.address) == {"say": "Second", "ask": "ask"}
        assert await metric_at(server.internal, "chat_catalog_problems") == 1
        catalog(tmp_path, ASK, {**SAY, "name": "Second"})
        server.process.send_signal(signal.SIGHUP)
        await eventually(lambda: len(lines(server, "catalog reloaded")) == 2)
        assert await metric_at(server.internal, "chat_catalog_problems") == 0
        assert await server.stop() == 0


async def test_of_ten_hangups_during_a_reload_one_more_follows(tmp_path: Path) -> None:
    write(tmp_path, SAY)
    async with serving(cwd=tmp_path) as server:
        (tmp_path / "slow").touch()
        write(tmp_path, SAY, text="two")
        server.process.send_signal(signal.SIGHUP)
        await eventually((tmp_path / "imports").exists)
        for number in range(10):
            catalog(tmp_path, {**SAY, "name": f"Name {number}"})
            server.process.send_signal(signal.SIGHUP)
        assert await agents_at(server.address) == {"say": "First"}, "it answers while it reads"
        (tmp_path / "slow").unlink()
        async with asyncio.timeout(30):
            while await agents_at(server.address) != {"say": "Name 9"}:
                await asyncio.sleep(0.02)
        # What is served may be seen before its line in the log, which the next one must not be taken for.
        await eventually(lambda: len(lines(server, "catalog reloaded")) >= 2)
        await hung_up(server)
        await server.stop()
        assert len(lines(server, "catalog reloaded")) == 3


async def test_hangups_from_the_first_moment_to_the_last_end_nothing(tmp_path: Path) -> None:
    write(tmp_path, SAY)
    (tmp_path / "hold").touch()
    arguments = {"cwd": tmp_path, "environment": {"AGENTIC_SERVER__GRACE_S": "60"}}
    async with command("serve", "--port", 0, **arguments) as server:
        # Until its handler is there, which is before all its imports, a signal would kill it.
        await eventually(lambda: handles_hangups(server.pid))
        hanging_up = asyncio.create_task(hang_up_for_good(server))
        await server.started()
        async with chat(server.address) as client:
            await begun(client, tmp_path, "say")
            ending = asyncio.create_task(server.stop())
            await eventually(lambda: lines(server, "catalog not reloaded, as the server ends"))
            (tmp_path / "hold").unlink()
            assert (await client.until("final"))["status"] == "ok"
        assert await ending == 0
        await hanging_up


def handles_hangups(pid: int) -> bool:
    [caught] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt")]
    return bool(int(caught.split()[1], 16) & 1 << signal.SIGHUP - 1)


async def hang_up_for_good(server: ServerProcess) -> None:
    while server.process.returncode is None:
        # Not by `send_signal`, which takes the exit status of a process that has just ended: nobody else would see it.
        with suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGHUP)
        await asyncio.sleep(0.01)


@pytest.mark.mongodb
@pytest.mark.redis
async def test_workers_reload_with_their_parent_and_one_that_comes_later_too(
    mongodb_url: str, redis_url: str, tmp_path: Path
) -> None:
    write(tmp_path, SAY)
    arguments = ["--store", mongodb_url, "--broadcast", redis_url, "--workers", 2]
    async with serving(*arguments, cwd=tmp_path) as parent:
        await parent.started(times=2)
        write(tmp_path, {**SAY, "name": "Second"}, text="two")
        parent.process.send_signal(signal.SIGHUP)
        await eventually(lambda: len(lines(parent, "catalog reloaded")) == 2)
        for worker in children(parent.pid):
            os.kill(worker, signal.SIGKILL)
        await parent.started(times=4)
        assert await agents_at(parent.address) == {"say": "Second"}
        async with chat(parent.address) as client:
            assert final_text(await client.ask("go", agent_id="say")) == "two"
        assert await parent.stop() == 0


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_a_save_reloads_in_place_and_by_a_rename_and_a_half_saved_file_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, SAY)
    async with serving("--reload", cwd=tmp_path) as server, chat(server.address) as client:
        session_id = (await client.ask("go"))[-1]["session_id"]
        (tmp_path / "said.py").write_text("TEXT = 'two'\n")
        await console_says(server, "Reloaded: changed say\n")
        assert final_text(await client.ask("go", session_id=session_id)) == "two"
        (tmp_path / "said.py").write_text("TEXT = 'thr")
        await console_says(
            server, f"importing 'saying' failed at {tmp_path}/said.py:1: SyntaxError: unterminated string"
        )
        # The log is another stream.
        await eventually(lambda: lines(server, "catalog not reloaded"))
        [line] = lines(server, "catalog not reloaded")
        assert "said.py:1: SyntaxError" in line["problems"][0]
        assert final_text(await client.ask("go", session_id=session_id)) == "two"
        (tmp_path / "said.py.new").write_text("TEXT = 'three'\n")
        (tmp_path / "said.py.new").rename(tmp_path / "said.py")
        await eventually(lambda: server.stdout.count("Reloaded: changed say\n") == 2)
        assert final_text(await client.ask("go", session_id=session_id)) == "three"
        catalog(tmp_path, SAY, HELLO)
        await console_says(server, "no module named 'greeting'")
        # A file that no module is of yet.
        (tmp_path / "greeting.py").write_text("from saying import say as hello\n")
        await console_says(server, "Reloaded: added hello\n")
        assert final_text(await client.ask("go", agent_id="hello")) == "three"
        assert await server.stop() == 0
