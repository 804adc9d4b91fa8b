"""Through the whole server, with tokens of a real Keycloak: who gets a socket, for how long, and where tokens go."""

import asyncio
import io
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from services.keycloak import BRIEF_CLIENT, BRIEF_LIFESPAN_S, CLIENT, SERVER_CLIENT, Keycloak
from services.mcp_echo import echo_server
from services.mcp_echo_server import fingerprint
from support import token_agents, wire_agents
from support.chat_client import PATIENCE_S, ChatClient, chat, final_text
from support.rest_client import rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES
from websockets.exceptions import ConnectionClosed

from agentic_backend.telemetry import JsonFormatter
from agentic_backend.transports import credentials

pytestmark = pytest.mark.keycloak

PLANNER = {
    "id": "planner",
    "class_path": "agentic_backend.experts.assistant.assistant:Assistant",
    "tools": ["create_todo"],
}
AGENTS = [*ENTRIES, *wire_agents.ENTRIES, *token_agents.ENTRIES, PLANNER]


@asynccontextmanager
async def served(
    keycloak: Keycloak, directory: Path, client_id: str = CLIENT, **more: Any
) -> AsyncIterator[RunningServer]:
    realm = {"realm_url": keycloak.realm_url, "client_id": client_id, "audience": SERVER_CLIENT}
    settings = {"auth": {"mode": "keycloak", "keycloak": realm}, **more}
    async with running_server(directory, agents=AGENTS, settings=settings) as server:
        yield server


@pytest.fixture
async def server(keycloak: Keycloak, tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with served(keycloak, tmp_path) as server:
        yield server


async def close_code(client: ChatClient, timeout_s: float = PATIENCE_S) -> int:
    """What the server closes with; what it still sends is kept in `client.events`."""
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            await client.receive(timeout_s)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def claims_of(token: str) -> dict[str, Any]:
    return jwt.decode(token, options={"verify_signature": False})


async def user_of(client: ChatClient, **fields: str) -> str:
    return str((await client.ask("hello", agent_id="echo", **fields))[0]["session"]["user_id"])


async def test_a_token_in_the_header_in_the_query_or_in_the_first_frame(
    keycloak: Keycloak, server: RunningServer
) -> None:
    token = (await keycloak.sign_in("alice"))["access_token"]
    alice = claims_of(token)["sub"]
    async with chat(server.address, token=token) as client:
        assert await user_of(client) == alice
    async with chat(server.address, query=f"?token={token}") as client:
        assert await user_of(client) == alice
    async with chat(server.address) as client:
        await client.send({"type": "authenticate", "access_token": token})
        assert await user_of(client) == alice
    async with rest(server, token) as http:
        sessions = (await http.get("/sessions")).json()["sessions"]
    assert [session["user_id"] for session in sessions] == [alice] * 3


@pytest.mark.parametrize("kind", ["id_token", "refresh_token"])
async def test_other_tokens_of_keycloak_open_nothing(keycloak: Keycloak, server: RunningServer, kind: str) -> None:
    tokens = await keycloak.sign_in("alice")
    async with chat(server.address, token=tokens[kind]) as client:
        assert await close_code(client) == 4401
    async with chat(server.address, token=tokens["access_token"]) as client:
        await client.send({"type": "authenticate", "access_token": tokens[kind]})
        assert await close_code(client) == 4401
        assert [event["code"] for event in client.events] == ["unauthenticated"]


async def test_newer_tokens_come_with_any_ask_but_only_of_the_same_user(
    keycloak: Keycloak, server: RunningServer
) -> None:
    first, newer, bobs = [await keycloak.sign_in(name) for name in ("alice", "alice", "bob")]
    alice = claims_of(first["access_token"])["sub"]
    async with chat(server.address, token=first["access_token"]) as client:
        assert await user_of(client, access_token=newer["access_token"]) == alice
        [refused] = await client.ask("hello", agent_id="echo", access_token=bobs["access_token"])
        assert (refused["code"], refused["refused"]) == ("forbidden", "ask")
        assert await user_of(client) == alice


async def test_a_token_that_ends_closes_its_socket_while_the_exchange_goes_on(
    keycloak: Keycloak, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert credentials.EXPIRY_LEEWAY_S <= 30
    # A token may be almost over when a slow machine gets it.
    leeway_s = 4
    monkeypatch.setattr(credentials, "EXPIRY_LEEWAY_S", leeway_s)
    async with served(keycloak, tmp_path, BRIEF_CLIENT) as server:
        token = (await keycloak.sign_in("alice", BRIEF_CLIENT))["access_token"]
        expires_at = claims_of(token)["exp"]
        async with chat(server.address, token=token) as client:
            beyond_s = max(0, expires_at - int(time.time())) + leeway_s + 2
            await client.send({"message": f"wait {beyond_s} seconds", "agent_id": "assistant"})
            started = await client.until("started")
            assert await close_code(client) == 4401
            assert expires_at <= time.time(), "not before"
        assert "final" not in [event["type"] for event in client.events]
        again = (await keycloak.sign_in("alice", BRIEF_CLIENT))["access_token"]
        async with chat(server.address, token=again) as client:
            await client.send({"type": "follow", "exchange_id": started["exchange_id"]})
            assert (await client.until("final"))["status"] == "ok"


async def test_a_socket_whose_tokens_are_renewed_stays_open(
    keycloak: Keycloak, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Renewed a few times, because Keycloak may take seconds for a new one.
    leeway_s = 2
    monkeypatch.setattr(credentials, "EXPIRY_LEEWAY_S", leeway_s)
    async with served(keycloak, tmp_path, BRIEF_CLIENT) as server:
        token = (await keycloak.sign_in("alice", BRIEF_CLIENT))["access_token"]
        ended_at = time.time() + BRIEF_LIFESPAN_S + leeway_s
        async with chat(server.address, token=token) as client:
            while time.time() < ended_at + 0.5:
                await asyncio.sleep(1)
                token = (await keycloak.sign_in("alice", BRIEF_CLIENT))["access_token"]
                await client.send({"type": "authenticate", "access_token": token})
            assert await user_of(client) == claims_of(token)["sub"]


async def test_an_agent_refreshes_its_users_token_in_mid_run(keycloak: Keycloak, tmp_path: Path) -> None:
    async with served(keycloak, tmp_path, BRIEF_CLIENT) as server:
        tokens = await keycloak.sign_in("alice", BRIEF_CLIENT)
        given = {name: tokens[name] for name in ("access_token", "refresh_token")}
        async with chat(server.address, token=tokens["access_token"]) as client:
            # By then the access token that the ask brought has ended.
            lasting = str(claims_of(tokens["access_token"])["exp"] - time.time() + 1)
            events = await client.ask(lasting, agent_id="refreshing", **given)
            assert final_text(events) == token_agents.EXPECTED
            bobs = (await keycloak.sign_in("bob", BRIEF_CLIENT))["refresh_token"]
            mixed = {"access_token": (await keycloak.sign_in("alice", BRIEF_CLIENT))["access_token"]}
            events = await client.ask("0", agent_id="refreshing", refresh_token=bobs, **mixed)
            assert (events[-1]["status"], events[-1]["error"]["code"]) == ("error", "unauthenticated")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that the server's own loggers say, and the warnings of all others, in the log's real form."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    loggers = [(logging.getLogger(), logging.INFO), (logging.getLogger("agentic_backend"), logging.DEBUG)]
    levels = [logger.level for logger, _ in loggers]
    loggers[0][0].addHandler(handler)
    for logger, level in loggers:
        logger.setLevel(level)
    yield written
    loggers[0][0].removeHandler(handler)
    for (logger, _), level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def stored(directory: Path) -> str:
    return str(b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file()))


async def test_a_run_with_many_mcp_calls_outlives_its_token_in_one_mcp_session(
    keycloak: Keycloak, tmp_path: Path, log: io.StringIO
) -> None:
    realm = {"realm_url": keycloak.realm_url, "client_id": BRIEF_CLIENT, "audience": SERVER_CLIENT}
    with echo_server() as echo:
        remote = echo.settings(auth={"mode": "user_token"})
        settings = {"auth": {"mode": "keycloak", "keycloak": realm}, "mcp_servers": {"remote": remote}}
        async with running_server(tmp_path, agents=[token_agents.ENDURING], settings=settings) as server:
            tokens = await keycloak.sign_in("alice", BRIEF_CLIENT)
            given = {name: tokens[name] for name in ("access_token", "refresh_token")}
            async with chat(server.address, token=tokens["access_token"]) as client:
                await client.send({"message": str(2 * BRIEF_LIFESPAN_S), "agent_id": "enduring", **given})
                final = await client.until("final")
            kept = await asyncio.to_thread(stored, server.data)
    for text in (log.getvalue(), kept, json.dumps(client.events)):
        assert not re.search(r"eyJ[\w-]{20}", text), "no token, also none that the run got for itself"
    *callers, session, count = json.loads(final_text([final]))
    assert all(ok for _, ok in callers), "no call has failed"
    used = {text for text, _ in callers}
    assert fingerprint(tokens["access_token"]) in used
    assert 2 < len(used) < 8, "each token is used for most of its time"
    assert session[0] != "none"
    assert count == ["1", True]


async def test_no_token_is_logged_stored_or_sent_back(
    keycloak: Keycloak, server: RunningServer, log: io.StringIO
) -> None:
    first, newer = await keycloak.sign_in("alice"), await keycloak.sign_in("alice")
    wrong = first["access_token"][:-8] + "AAAAAAAA"
    tokens = {name: newer[name] for name in ("access_token", "refresh_token")}
    received = ""
    async with chat(server.address, query=f"?token={first['access_token']}") as client:
        await client.send({"type": "authenticate", **tokens})
        for agent_id, message in [("assistant", "what is 6*7?"), ("tells-tokens", "hello"), ("refreshing", "0")]:
            await client.ask(message, agent_id=agent_id, **tokens)
        assert final_text(client.events) == token_agents.EXPECTED
        await client.ask("hello", agent_id="echo", access_token=first["id_token"] + "x", refresh_token="nonsense")
        received += json.dumps(client.events)
    for options in ({"token": wrong}, {"query": f"?token={wrong}"}, {"token": first["refresh_token"]}):
        async with chat(server.address, **options) as client:
            assert await close_code(client) == 4401
            received += json.dumps(client.events)
    async with rest(server, newer["access_token"]) as http:
        for path in ("/agents", "/sessions", f"/sessions?token={wrong}", "/metrics/chatbot/summary"):
            received += (await http.get(path)).text
        received += (await http.get(f"{server.internal}/metrics")).text
    written = log.getvalue()
    assert '"message":"exchange started"' in written and '"code":"unauthenticated"' in written, "the log is there"
    kept = await asyncio.to_thread(stored, server.data)
    assert "what is 6*7?" in kept, "the store is there"
    for token in (first, newer):
        for name in ("access_token", "refresh_token", "id_token"):
            # The middle is the token's claims, the end its signature: either would be telling.
            for canary in token[name].split(".")[1:]:
                assert canary[:-8] not in written
                assert canary[:-8] not in kept
                assert canary[:-8] not in received


async def test_the_roles_of_a_token_decide_which_tools_an_agent_may_use(keycloak: Keycloak, tmp_path: Path) -> None:
    """Of the realm's users, alice is an analyst."""
    results: dict[str, list[bool]] = {}
    permissions = {"roles": {"analyst": ["todos:*:self"]}}
    async with served(keycloak, tmp_path, permissions=permissions) as server:
        for name in ("alice", "bob"):
            token = (await keycloak.sign_in(name))["access_token"]
            async with chat(server.address, token=token) as client:
                events = await client.ask("add a todo: water the plants", agent_id="planner")
            messages = [event["message"] for event in events if event["type"] == "stream" and "message" in event]
            parts = [part for message in messages for part in message["parts"] if part["type"] == "tool_result"]
            results[name] = [part["ok"] for part in parts]
    assert results == {"alice": [True], "bob": []}
