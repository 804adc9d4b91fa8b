"""The server as a process: how it starts, what it says, and what it says when it can't."""

import contextlib
import json
import socket
import sqlite3
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from support.chat_client import chat, check_exchange, final_text
from support.log_lines import log_lines, problems, reasons, surprising
from support.ports import free_port
from support.rest_client import plain_http
from support.server_process import ServerProcess, command, serving

AGENT = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from words import GREETING

def greet(state):
    return {"messages": [AIMessage(f"{GREETING}, {state['messages'][-1].text}!")]}

builder = StateGraph(MessagesState)
builder.add_node("greet", greet)
builder.add_edge(START, "greet")
graph = builder.compile()

def with_model(model):
    return graph
"""
OURS = {"id": "ours", "class_path": "our_agents:graph"}
# Says how often a thread had Python's lock while the event loop was busy for half a second.
BUSY = """
import threading, time
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

async def be_busy(state):
    until, times = time.monotonic() + 0.5, 0

    def take_turns():
        nonlocal times
        while time.monotonic() < until:
            times += 1
            time.sleep(0)

    thread = threading.Thread(target=take_turns)
    thread.start()
    while time.monotonic() < until:
        pass
    thread.join()
    return {"messages": [AIMessage(str(times))]}

builder = StateGraph(MessagesState)
builder.add_node("be_busy", be_busy)
builder.add_edge(START, "be_busy")
graph = builder.compile()
"""


def write_agents(directory: Path, *entries: dict[str, object], catalog: str = "agents_catalog.yaml") -> None:
    """An agent's module with one that it imports, and a catalog."""
    (directory / "our_agents.py").write_text(AGENT)
    (directory / "words.py").write_text("GREETING = 'Hello'\n")
    (directory / catalog).write_text(yaml.safe_dump({"agents": list(entries)}))


def said_nothing_surprising(server: ServerProcess) -> None:
    """Its log has no warning, no error and no traceback, and only logs are on standard error."""
    assert surprising(log_lines(server.stderr)) == []
    assert len(server.stdout.splitlines()) == 1


async def answers(server: ServerProcess, message: str = "my name is Zorblax", **fields: str) -> str:
    async with chat(server.address) as client:
        events = await client.ask(message, **fields)
    check_exchange(events)
    return final_text(events)


async def status_of(address: str) -> int:
    async with plain_http() as client:
        return (await client.get(address)).status_code


async def test_it_starts_in_an_empty_folder_and_needs_nothing(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as server:
        assert "Zorblax" in await answers(server)
        assert await status_of(server.address) == 200
        assert server.internal is not None
        for path in ("/metrics", "/health/live", "/health/ready"):
            assert await status_of(server.internal + path) == 200
        assert await status_of(server.address + "/metrics") == 404
        assert await server.stop() == 0
        said_nothing_surprising(server)
        lines = map(json.loads, server.stderr.splitlines())
        [told] = [line for line in lines if line["message"] == "server started"]
        assert told["version"] == version("agentic-backend")
        assert (told["store"], told["broadcast"], told["auth"]) == ("sqlite", None, "developer")
        assert "assistant" in told["agents"] and told["models"] == {"default": "offline"}
        assert told["limits"]["max_running"] == 500
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert (tmp_path / "data" / "chat.sqlite3").is_file()


async def test_every_flag_does_what_it_says(tmp_path: Path) -> None:
    public, internal = free_port(), free_port()
    write_agents(tmp_path, OURS, catalog="mine.yaml")
    (tmp_path / "mine.conf").write_text("auth: {developer: {user: Somebody}}\nlog: {level: error}\n")
    flags = ["--host", "localhost", "--port", public, "--internal-port", internal, "--log-level", "info"]
    files = ["--data", "kept/here", "--config", "mine.conf", "--catalog", "mine.yaml"]
    async with command("serve", *flags, *files, cwd=tmp_path) as server:
        await server.started()
        assert (server.address, server.internal) == (f"http://127.0.0.1:{public}", f"http://127.0.0.1:{internal}")
        async with chat(server.address) as client:
            events = await client.ask("world")
        check_exchange(events)
        assert final_text(events) == "Hello, world!"
        assert events[0]["agent_id"] == "ours"
        assert events[0]["session"]["user_id"] == "Somebody"
        assert await server.stop() == 0
        said_nothing_surprising(server)
        assert '"exchange started"' in server.stderr
    assert (tmp_path / "kept" / "here" / "chat.sqlite3").is_file()


async def test_the_internal_listener_can_be_off(tmp_path: Path) -> None:
    async with serving("--internal-port", 0, cwd=tmp_path) as server:
        assert server.internal is None
        assert "metrics" not in server.stdout
        await answers(server)
        assert await server.stop() == 0
        said_nothing_surprising(server)


async def test_a_bad_entry_of_the_catalog_is_told_and_the_others_are_served(tmp_path: Path) -> None:
    entries = [
        OURS,
        {"id": "typo", "class_path": "our_agents:grahp"},
        {"id": "elsewhere", "class_path": "not_there:graph"},
        {"id": "expensive", "class_path": "our_agents:with_model", "model": "groq:llama"},
    ]
    write_agents(tmp_path, *entries)
    async with serving(cwd=tmp_path) as server:
        assert await answers(server, "world") == "Hello, world!"
        async with chat(server.address) as client:
            [refusal] = await client.ask("hello", agent_id="typo")
        assert refusal["code"] == "agent_unavailable"
        assert "grahp" not in refusal["content"] and "grahp" in refusal["detail"]["text"]
        assert await server.stop() == 0
    told = problems(server.stderr)
    assert [line.split(":")[:2] for line in told[:2]] == [["agents_catalog.yaml", "4"], ["agents_catalog.yaml", "6"]]
    assert "did you mean 'graph'" in told[0]
    assert "langchain-groq" in told[2] and len(told) == 3
    async with command("validate", cwd=tmp_path) as validation:
        assert await validation.ended() == 2
        assert problems(validation.stderr) == told[:2]
        assert validation.stdout.startswith("2 agents can be served, 2 problems\n")


async def test_a_wrong_configuration_is_told_and_nothing_is_done(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("server:\n  prot: 80\n  grace_s: soon\n")
    async with command("serve", "--config", "mine.yaml", cwd=tmp_path) as server:
        assert await server.ended() == 2
        assert server.stdout == ""
        assert problems(server.stderr) == [
            "mine.yaml:3:12: server.grace_s: expected a number from 0 to 3600, found 'soon'",
            "mine.yaml:2:3: server.prot: unknown key 'prot'; did you mean 'port'?",
        ]
    assert not (tmp_path / "data").exists()


async def test_with_the_flag_a_developer_may_listen_to_everybody(tmp_path: Path) -> None:
    async with serving("--host", "0.0.0.0", "--allow-remote-developer", cwd=tmp_path) as server:
        assert server.address.startswith("http://0.0.0.0:")
        assert await status_of(server.address.replace("0.0.0.0", "127.0.0.1")) == 200


async def test_a_busy_event_loop_keeps_threads_waiting_only_shortly(tmp_path: Path) -> None:
    """SQLite's among them, for which exchanges that start wait."""
    write_agents(tmp_path, {"id": "busy", "class_path": "busy_agent:graph"})
    (tmp_path / "busy_agent.py").write_text(BUSY)
    async with serving(cwd=tmp_path) as server:
        times = int(await answers(server))
    # With Python's own interval of five milliseconds, it would be a hundred at most.
    assert times > 200


@pytest.mark.parametrize("flag", ["--port", "--internal-port"])
async def test_an_address_in_use_is_named(tmp_path: Path, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        async with command("serve", "--port", 0, flag, port, cwd=tmp_path) as server:
            assert await server.ended() == 1
            assert reasons(server.stderr) == [f"127.0.0.1:{port}: Address already in use"]
            assert server.stdout == ""


def no_directory(data: Path) -> None:
    data.write_text("a file")


def no_database(data: Path) -> None:
    data.mkdir()
    (data / "chat.sqlite3").write_text("This is no database. " * 100)


def newer_database(data: Path) -> None:
    data.mkdir()
    connection = sqlite3.connect(data / "chat.sqlite3")
    connection.execute("PRAGMA user_version = 999")
    connection.close()


def damaged_database(data: Path) -> None:
    data.mkdir()
    with contextlib.closing(sqlite3.connect(data / "chat.sqlite3")) as db:
        db.execute("CREATE TABLE kept (id INTEGER)")
        db.commit()
    with (data / "chat.sqlite3").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 100)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (no_directory, "File exists"),
        (no_database, "not a database"),
        (damaged_database, "chat.sqlite3 is damaged ("),
        (newer_database, "schema version 999"),
    ],
)
async def test_data_that_cannot_be_used_are_named(tmp_path: Path, spoil: object, told: str) -> None:
    assert callable(spoil)
    spoil(tmp_path / "data")
    async with command("serve", "--port", 0, cwd=tmp_path) as server:
        assert await server.ended() == 1
        [reason] = reasons(server.stderr)
        assert reason.startswith("data: ") and told in reason


async def test_a_second_server_leaves_the_data_of_the_first_one_alone(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as server, chat(server.address) as client:
        await client.send({"message": "count down slowly from 10"})
        await client.until("delta")
        async with command("serve", "--port", 0, cwd=tmp_path) as second:
            assert await second.ended() == 1
            assert reasons(second.stderr) == ["data: another server uses this directory"]
        final = await client.until("final")
        assert final["status"] == "ok"
        assert await server.stop() == 0
        said_nothing_surprising(server)
