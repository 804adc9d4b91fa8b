"""Canaries: no token and no text of a message reaches a log, no token reaches the store or a client.

Only at level `debug` does an exception of an agent have its whole text, which may quote messages, never tokens.
"""

import asyncio
import io
import json
import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import wire_agents
from support.chat_client import ChatClient, chat
from support.providers.hostile import hostile_provider
from support.rest_client import plain_http, rest, sse_events
from support.running_server import ASSISTANT, FAST, RunningServer, running_server
from support.server_process import serving
from support.test_agents import ENTRIES
from websockets.exceptions import ConnectionClosed

from agentic_backend.auth.developer import DeveloperAuthenticator
from agentic_backend.auth.user import User
from agentic_backend.errors import Unauthenticated
from agentic_backend.telemetry import JsonFormatter

AGENTS = [*ENTRIES, *wire_agents.ENTRIES]
# Long enough that only those fall silent for so long who are to, though the machine stands still for some seconds.
IMPATIENT = {"limits": {"model_timeout_s": 4}, "agents": {"build_timeout_s": 4}}
# Words that nothing else says, and tokens of a form that no pattern of a redaction knows.
WORDS = ["quokkaberry", "zanthoxylum", "wombatfruit", "plinthgaze"]
ACCESS, REFRESH, LATER, WRONG = "opaque.aa11bb22", "opaque.cc33dd44", "opaque.ee55ff66", "opaque.wrong77"
TOKENS = [ACCESS, REFRESH, LATER, WRONG]


class OpaqueTokens(DeveloperAuthenticator):
    """Tokens that say nothing of themselves, all of one user."""

    async def authenticate(self, access_token: str) -> User:
        if access_token not in (ACCESS, LATER):
            raise Unauthenticated
        return User(id="carol", name="Carol")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that would be logged at the lowest level, in its real form."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    root, ours = logging.getLogger(), logging.getLogger("agentic_backend")
    levels = root.level, ours.level
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.DEBUG)
    yield written
    root.removeHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningServer]:
    monkeypatch.setattr("agentic_backend.app.DeveloperAuthenticator", OpaqueTokens)
    async with running_server(tmp_path, agents=AGENTS, settings=IMPATIENT) as server:
        yield server


def found(text: str, canaries: list[str]) -> list[str]:
    return [canary for canary in canaries if canary in text.lower()]


def without_texts(log: str) -> str:
    """The lines of the log without the texts of agents' exceptions."""
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    for line in lines:
        line["exception"] = [{**told, "text": ""} for told in line.get("exception", [])]
    assert lines
    return json.dumps(lines)


def stored_bytes(directory: Path) -> bytes:
    """The database as it lies on the disk, its journal included."""
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


async def talk(client: ChatClient, **tokens: str) -> None:
    """Say the canaries in every way that there is: answered, cut, refused, and in exceptions of all kinds."""
    first, second, third, fourth = WORDS
    session_id = (await client.ask(f"remember that {first} is {second}", agent_id="assistant", **tokens))[-1][
        "session_id"
    ]
    await client.ask(f"what is 6*7? {first}", session_id=session_id, runtime_context={third: third}, **tokens)
    await client.ask(f"use the tool nothing with {{{first}: {second}}}", agent_id="assistant")
    for agent_id in ("breaks-with-texts", "echo"):
        kept = (await client.ask(f"{first} and {second} are kept", agent_id=agent_id))[-1]["session_id"]
        await client.ask(f"{third} is '{fourth}'\nand more\u2028", agent_id="breaks-with-texts", session_id=kept)
    for agent_id in (
        "raising",
        "breaks-in-the-middle",
        "tells-tokens",
        "fails-in-init",
        "no-messages",
        "hangs-in-init",
    ):
        await client.ask(f"{first} {second} {third} {fourth}", agent_id=agent_id, **tokens)
    await client.ask(f"think first: fail after 20 tokens. {first}")
    await client.ask(f"hang after 20 tokens. {fourth} is {first}")
    await client.ask(first, agent_id="asking", mode="query", **tokens)
    for refused in (
        {"message": first * 30_000},
        {"message": first, "agent_id": second},
        {"message": first, "session_id": second, "client_exchange_id": third},
        {"message": first, "runtime_context": {second: third * 5_000}},
        {"message": 5, "wizard": first, "access_token": ACCESS},
        {"type": first, "access_token": ACCESS},
        {"type": "authenticate", "access_token": ACCESS, "wizard": REFRESH},
        {"type": "authenticate", "access_token": [ACCESS]},
        f"{first} {ACCESS}",
    ):
        await client.send(refused)
        await client.until("error")


async def test_over_a_socket(server: RunningServer, log: io.StringIO) -> None:
    tokens = {"access_token": LATER, "refresh_token": REFRESH}
    async with chat(server.address, token=ACCESS) as client:
        await talk(client, **tokens)
        await client.send({"type": "authenticate", **tokens})
        await client.send({"type": "ask", "message": "hello", "access_token": WRONG, "refresh_token": REFRESH})
        events = client.events
        with pytest.raises(ConnectionClosed):
            while True:
                await client.receive()
    async with chat(server.address, query=f"?token={ACCESS}") as client:
        await client.ask("hello", agent_id="echo")
    async with chat(server.address, query=f"?token={WRONG}") as client:
        with pytest.raises(ConnectionClosed):
            await client.receive()
    written = log.getvalue()
    assert '"code":"model_error"' in written and '"code":"internal"' in written, "the log is there"
    assert found(without_texts(written), WORDS) == []
    assert found(written, TOKENS) == []
    assert found(str(events), TOKENS) == []
    assert found(str(await asyncio.to_thread(stored_bytes, server.data)), TOKENS) == []
    assert found(str(await asyncio.to_thread(stored_bytes, server.data)), WORDS) == WORDS, "the texts are stored"


async def test_over_a_socket_at_the_usual_level(server: RunningServer, log: io.StringIO) -> None:
    logging.getLogger("agentic_backend").setLevel(logging.INFO)
    async with chat(server.address, token=ACCESS) as client:
        await talk(client, access_token=LATER, refresh_token=REFRESH)
    written = log.getvalue()
    assert '"text":' in written, "the texts of exceptions are there"
    assert found(written, WORDS + TOKENS) == []


async def test_over_rest(server: RunningServer, log: io.StringIO) -> None:
    received = ""
    async with rest(server, ACCESS) as http:
        session = (await http.post("/sessions", json={"title": WORDS[0]})).json()
        path = f"/sessions/{session['id']}"
        async with http.stream("POST", f"{path}/messages", json={"content": WORDS[1]}) as response:
            received += str([event async for event in sse_events(response)])
        calls: list[tuple[str, str, Any]] = [
            ("PATCH", path, {"title": WORDS[2]}),
            ("PATCH", path, {"title": [WORDS[2]], WORDS[3]: ACCESS}),
            ("POST", f"{path}/messages", {"content": [WORDS[1]]}),
            ("GET", f"/sessions?q={WORDS[0]}&cursor={ACCESS}", None),
            ("GET", f"/sessions?limit={WORDS[0]}", None),
            ("GET", f"/sessions?token={ACCESS}", None),
            ("GET", f"{path}/messages", None),
            ("POST", f"{path}/complete", None),
        ]
        for method, target, body in calls:
            received += (await http.request(method, target, json=body)).text
        received += (await http.get("/agents", headers={"Authorization": f"Bearer {WRONG}"})).text
        received += (await http.get("/agents", headers={"Authorization": f"Basic {WRONG}"})).text
        received += (await http.get(f"{server.internal}/metrics")).text
    written = log.getvalue()
    assert "request refused" in written
    assert found(written, WORDS + TOKENS) == []
    assert found(received, TOKENS) == []
    assert found(str(await asyncio.to_thread(stored_bytes, server.data)), TOKENS) == []


async def test_of_a_server_in_a_process_of_its_own_that_logs_all_it_can(tmp_path: Path) -> None:
    access, expiring = "dev:carol-7731", "dev:carol-7731:9999999999"
    tokens = [access, "9999999999", REFRESH]
    config, catalog = tmp_path / "settings.yaml", tmp_path / "catalog.yaml"
    config.write_text(yaml.safe_dump({**FAST, **IMPATIENT}))
    catalog.write_text(yaml.safe_dump({"agents": [ASSISTANT, *AGENTS]}))
    arguments = ["--config", config, "--catalog", catalog, "--data", tmp_path / "data", "--log-level", "debug"]
    modules = {
        "PYTHONPATH": os.pathsep.join(map(str, (Path(__file__).parent, Path(__file__).parents[1]))),
        "AGENTIC_MODELS__DEFAULT__OPTIONS": '{"words_per_second": 0}',
    }
    async with serving(*arguments, cwd=tmp_path, environment=modules) as server:
        async with chat(server.address, query=f"?token={expiring}") as client:
            await talk(client, access_token=access, refresh_token=REFRESH)
        async with chat(server.address, query=f"?token={expiring}&token=dev:nobody%20{WORDS[0]}") as client:
            with pytest.raises(ConnectionClosed):
                await client.receive()
        async with chat(server.address, token=expiring) as client:
            await client.ask(WORDS[0], agent_id="echo")
        assert await server.stop() == 0
        assert '"request_id"' in server.stderr and '"level":"error"' in server.stderr
        assert found(server.stdout + server.stderr, tokens) == []
        assert found(server.stdout + without_texts(server.stderr), WORDS) == []
    assert found(str(await asyncio.to_thread(stored_bytes, tmp_path / "data")), tokens) == []


async def test_a_key_in_the_url_of_a_provider_reaches_no_log(tmp_path: Path) -> None:
    """Clients of providers log each request's URL; some of them as loudly as a variable asks for."""
    async with hostile_provider() as url:
        environment = {
            "OPENAI_API_KEY": "sk-of-the-tests-0123456789abcdef",
            "OPENAI_BASE_URL": f"{url}/wombatfruit-0123456789/v1?secret=quokkaberry&api_key=plinthgaze",
            "OPENAI_LOG": "debug",
            "AGENTIC_MODELS__DEFAULT__MODEL": "openai:gpt-5.4-mini",
            "AGENTIC_MODELS__DEFAULT__OPTIONS": '{"max_retries": 0}',
            "AGENTIC_LOG__LEVEL": "debug",
        }
        async with serving(cwd=tmp_path, environment=environment) as server, plain_http() as http:
            async with chat(server.address) as client:
                for way in ("well", "calls", "line"):
                    await client.ask(way)
            tail = (await http.get(f"{server.internal}/log")).text
            assert await server.stop() == 0
    assert "exchange ended" in server.stderr and "exchange ended" in tail
    assert found(server.stderr + tail, [*WORDS, "sk-of-the-tests"]) == []
