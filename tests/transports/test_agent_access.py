"""Who may do what: required roles, agents for some roles only, and a server that can't check tokens."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import Response
from support.chat_client import PATIENCE_S, chat, final_text
from support.rest_client import error_of, plain_http, rest
from support.running_server import RunningServer, running_server
from support.signing_realm import SigningRealm
from support.test_agents import ENTRIES, MODULE
from websockets.exceptions import ConnectionClosed

ANALYSTS = {"id": "analysis", "class_path": f"{MODULE}:echo_graph", "access": {"roles": ["analyst", "auditor"]}}
KEEPERS = {"id": "vault", "class_path": f"{MODULE}:echo_graph", "access": {"roles": ["keeper"]}}
NOBODY: dict[str, object] = {"sub": "bob-id", "realm_access": None, "resource_access": None}


@asynccontextmanager
async def served(realm: SigningRealm, directory: Path, **settings: Any) -> AsyncIterator[RunningServer]:
    auth = {"mode": "keycloak", "keycloak": {"realm_url": realm.url, **settings}}
    agents = [ANALYSTS, KEEPERS, *ENTRIES]
    async with running_server(directory, agents=agents, settings={"auth": auth}) as server:
        yield server


@pytest.fixture
async def server(realm: SigningRealm, tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with served(realm, tmp_path) as server:
        yield server


async def close_code(address: str, **options: Any) -> int:
    """What the server closes a socket with, without a word before."""
    async with chat(address, **options) as client:
        with pytest.raises(ConnectionClosed) as closed:
            await client.receive()
        assert closed.value.rcvd is not None
        return closed.value.rcvd.code


async def agents_of(server: RunningServer, token: str) -> tuple[set[str], str | None]:
    """The ids of the agents that the bearer may use, and of the default one."""
    async with rest(server, token) as client:
        agents = (await client.get("/agents")).json()["agents"]
    return {agent["id"] for agent in agents}, next((agent["id"] for agent in agents if agent["default"]), None)


# Agents for some


async def test_users_see_only_agents_that_they_may_use(realm: SigningRealm, server: RunningServer) -> None:
    for_everybody, default = await agents_of(server, realm.sign(**NOBODY))
    assert default == "assistant" and {"analysis", "vault"}.isdisjoint(for_everybody)
    assert (await agents_of(server, realm.sign()))[0] == for_everybody | {"analysis"}
    keeper = realm.sign(resource_access={"agentic-chat": {"roles": ["keeper"]}})
    assert (await agents_of(server, keeper))[0] == for_everybody | {"analysis", "vault"}


async def test_an_agent_of_others_is_forbidden_wherever_it_is_named(realm: SigningRealm, server: RunningServer) -> None:
    async with chat(server.address, token=realm.sign(**NOBODY)) as client:
        for mode in ("chat", "query"):
            [refused] = await client.ask("hello", agent_id="analysis", mode=mode)
            assert (refused["code"], refused["refused"], refused["retryable"]) == ("forbidden", "ask", False)
        assert final_text(await client.ask("hello", agent_id="echo")) == "echo: hello", "the socket stays open"
        [refused] = await client.ask("hello", agent_id="analysys")
        assert (refused["code"], "analysis" in refused["content"]) == ("agent_not_found", False)
    async with rest(server, realm.sign(**NOBODY)) as http:
        response = await http.post("/sessions", json={"agent_id": "analysis"})
        assert (response.status_code, error_of(response)["code"]) == (403, "forbidden")
        sessions = (await http.get("/sessions")).json()["sessions"]
        assert [session["agent_id"] for session in sessions] == ["echo"]


async def test_who_has_lost_an_agent_asks_it_nothing_more(realm: SigningRealm, server: RunningServer) -> None:
    async with chat(server.address, token=realm.sign()) as client:
        events = await client.ask("hello", agent_id="analysis")
        assert final_text(events) == "echo: hello"
        session_id = events[-1]["session_id"]
        # The same user, whose newer token says less.
        lesser = realm.sign(realm_access=None)
        [refused] = await client.ask("more", session_id=session_id, access_token=lesser)
        assert refused["code"] == "forbidden"
    async with rest(server, lesser) as http:
        response = await http.post(f"/sessions/{session_id}/messages", json={"content": "more"})
        assert (response.status_code, error_of(response)["code"]) == (403, "forbidden")
        messages = (await http.get(f"/sessions/{session_id}/messages")).json()["messages"]
        assert len(messages) == 2, "what was said stays theirs"


async def test_who_may_use_no_agent_sees_none(
    realm: SigningRealm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("support.running_server.ASSISTANT", KEEPERS)
    auth = {"mode": "keycloak", "keycloak": {"realm_url": realm.url}}
    async with running_server(tmp_path, settings={"auth": auth}) as server:
        assert await agents_of(server, realm.sign()) == (set(), None)
        async with chat(server.address, token=realm.sign()) as client:
            [refused] = await client.ask("hello")
            assert refused["code"] == "forbidden"


# Who gets in


async def test_without_a_token_nobody_gets_in(realm: SigningRealm, server: RunningServer) -> None:
    async with rest(server) as http:
        response = await http.get("/agents")
        assert (response.status_code, error_of(response)["code"]) == (401, "unauthenticated")
    async with chat(server.address) as client:
        await client.send({"type": "ask", "message": "hello"})
        with pytest.raises(ConnectionClosed) as closed:
            await client.receive()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4401


async def test_wrong_and_old_tokens_are_refused_by_their_codes(realm: SigningRealm, server: RunningServer) -> None:
    tokens = {
        "unauthenticated": [realm.sign(azp="other-client"), realm.sign(typ="ID"), realm.sign_with_public_key()],
        "token_expired": [realm.sign(exp=1_000)],
    }
    for code, refused in tokens.items():
        for token in refused:
            async with rest(server, token) as http:
                response = await http.get("/sessions")
            assert (response.status_code, error_of(response)["code"]) == (401, code)
            assert await close_code(server.address, token=token) == 4401
            assert await close_code(server.address, query=f"?token={token}") == 4401
            async with chat(server.address, token=realm.sign()) as client:
                [error] = await client.ask("hello", access_token=token)
                assert error["code"] == code


async def test_who_lacks_a_required_role_stays_away(realm: SigningRealm, tmp_path: Path) -> None:
    async with served(realm, tmp_path, required_roles=["analyst"]) as server:
        assert await close_code(server.address, token=realm.sign(**NOBODY)) == 4403
        async with rest(server, realm.sign(**NOBODY)) as http:
            response = await http.get("/agents")
            assert (response.status_code, error_of(response)["code"]) == (403, "forbidden")
        async with chat(server.address, token=realm.sign()) as client:
            assert final_text(await client.ask("hello", agent_id="echo")) == "echo: hello"


async def test_a_token_may_be_too_long_for_a_request_and_for_a_frame(
    realm: SigningRealm, server: RunningServer
) -> None:
    long = realm.sign(padding="x" * 100_000)
    async with rest(server, long) as http:
        assert (await http.get("/agents")).status_code == 431
    async with chat(server.address, token=realm.sign()) as client:
        await client.send({"type": "authenticate", "access_token": long})
        refused = await client.receive()
        assert (refused["code"], long[:20] in refused["content"]) == ("bad_frame", False)


async def test_a_token_in_its_leeway_gets_no_socket_for_longer(realm: SigningRealm, server: RunningServer) -> None:
    ended_at = int(time.time()) - 12
    async with rest(server, realm.sign(exp=ended_at)) as http:
        assert (await http.get("/agents")).status_code == 200
    assert await close_code(server.address, token=realm.sign(exp=ended_at)) == 4401


# Without keys


async def becomes(internal: httpx.AsyncClient, status: str) -> int:
    """The HTTP status of the readiness once it is `status`: a write that is slow makes it another one for a second."""
    async with asyncio.timeout(PATIENCE_S):
        while (ready := await internal.get("/health/ready")).json() != {"status": status}:
            await asyncio.sleep(0.05)
    return ready.status_code


async def test_a_server_without_keys_says_so_and_nobody_is_sent_away_for_good(
    realm: SigningRealm, tmp_path: Path
) -> None:
    async def refuse() -> Response:
        return Response(status_code=503, headers={"connection": "close"})

    realm.answer = refuse
    async with served(realm, tmp_path) as server, plain_http(base_url=server.internal) as internal:
        assert await becomes(internal, "auth_unavailable") == 503
        assert (await internal.get("/health/live")).status_code == 200
        assert 'chat_dependency_up{dependency="keycloak"} 0.0' in (await internal.get("/metrics")).text
        async with rest(server, realm.sign()) as http:
            response = await http.get("/agents")
        error = error_of(response)
        assert (response.status_code, error["code"], error["retryable"]) == (503, "auth_unavailable", True)
        assert await close_code(server.address, token=realm.sign()) == 1011


async def test_a_server_with_keys_is_ready(server: RunningServer) -> None:
    async with plain_http(base_url=server.internal) as internal:
        assert await becomes(internal, "ok") == 200
        assert 'chat_dependency_up{dependency="keycloak"} 1.0' in (await internal.get("/metrics")).text
