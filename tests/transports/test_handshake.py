"""Who gets a WebSocket, under which name, and for how long."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from support.chat_client import PATH, PATIENCE_S, TOKEN_S, ChatClient, chat, final_text
from support.running_server import RunningServer, running_server
from support.signing_realm import signing_realm
from support.test_agents import ENTRIES
from websockets.exceptions import ConnectionClosed, InvalidStatus

from agentic_backend.auth.developer import DeveloperAuthenticator
from agentic_backend.auth.user import User
from agentic_backend.transports import credentials

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TokenNeeded(DeveloperAuthenticator):
    """Developer tokens, without which nobody gets in."""

    @property
    def anonymous(self) -> User | None:
        return None


@pytest_asyncio.fixture(loop_scope="module")
async def server(shared_server: RunningServer) -> RunningServer:
    return shared_server


@pytest_asyncio.fixture(loop_scope="module")
async def strict_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningServer]:
    monkeypatch.setattr("agentic_backend.app.DeveloperAuthenticator", TokenNeeded)
    # Longer than whoever signs in takes, on any machine.
    limits = {"limits": {"authenticate_timeout_s": PATIENCE_S}}
    async with running_server(tmp_path, agents=ENTRIES, settings=limits) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def impatient_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningServer]:
    monkeypatch.setattr("agentic_backend.app.DeveloperAuthenticator", TokenNeeded)
    limits = {"limits": {"authenticate_timeout_s": 0.5}}
    async with running_server(tmp_path, settings=limits) as server:
        yield server


async def refused_with(address: str, **options: Any) -> int:
    """The HTTP status that a handshake is refused with."""
    with pytest.raises(InvalidStatus) as refused:
        async with chat(address, **options):
            pass
    return refused.value.response.status_code


async def raw_status(address: str, *headers: str, target: str = PATH, key: str = "dGhlIHNhbXBsZSBub25jZQ==") -> int:
    """The HTTP status that a handshake with these headers is answered with, byte by byte as they are given."""
    parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    lines = [
        f"GET {target} HTTP/1.1",
        *headers,
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Protocol: chat.v2",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(PATIENCE_S):
        status = int((await reader.readline()).split()[1])
    writer.transport.abort()
    return status


async def close_code(client: ChatClient) -> int:
    """The code that the server closes with; whatever it still sends is kept in `client.events`."""
    async with asyncio.timeout(PATIENCE_S):
        try:
            while True:
                client.events.append(json.loads(await client.socket.recv()))
        except ConnectionClosed as closed:
            assert closed.rcvd is not None, "the server said why"
            return closed.rcvd.code


async def user_of(client: ChatClient) -> str:
    events = await client.ask("hello", agent_id="echo")
    return str(events[0]["session"]["user_id"])


# Subprotocols


async def test_chat_v2_is_chosen_among_several(server: RunningServer) -> None:
    async with chat(server.address, subprotocols=["chat.v9", "chat.v2", "other"]) as client:
        assert client.socket.subprotocol == "chat.v2"
        await client.send({"type": "ping"})
        assert await client.receive() == {"type": "pong"}


@pytest.mark.parametrize("offered", [["chat.v1"], ["other", "chat.v3"], ["CHAT.V2"]])
async def test_who_offers_only_other_subprotocols_is_refused(server: RunningServer, offered: list[str]) -> None:
    assert await refused_with(server.address, subprotocols=offered) == 400


async def test_other_paths_have_no_socket(server: RunningServer) -> None:
    assert await raw_status(server.address, "Host: localhost", target="/agentic/v1/chatbot/query") == 404
    assert await raw_status(server.address, "Host: localhost", target="/agentic/v1/agents") == 404


# Origin and Host


async def test_a_page_of_the_servers_own_may_connect(server: RunningServer) -> None:
    port = server.address.rpartition(":")[2]
    for origin in (server.address, f"http://localhost:{port}", f"HTTP://LOCALHOST:{port}"):
        async with chat(server.address, origin=origin) as client:
            await client.send({"type": "ping"})
            assert (await client.receive())["type"] == "pong"


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1.evil:80", "x"]
)
async def test_a_foreign_page_is_refused_before_it_is_accepted(server: RunningServer, origin: str) -> None:
    assert await refused_with(server.address, origin=origin) == 403
    assert await refused_with(server.address, origin=origin, token="dev:alice") == 403


async def test_an_origin_of_the_settings_may_connect(tmp_path: Path) -> None:
    allowed = {"server": {"port": 0, "allowed_origins": ["https://chat.example"], "allowed_hosts": ["chat.example"]}}
    async with running_server(tmp_path, settings=allowed) as server:
        address = urlsplit(server.address)
        named = {"host": address.hostname, "port": address.port}
        async with chat("http://chat.example", origin="https://chat.example", **named):
            pass
        assert await refused_with(server.address, origin="http://chat.example") == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::", "", "a b"])
async def test_a_foreign_host_name_is_refused(
    server: RunningServer, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await raw_status(server.address, f"Host: {host}") == 400
    assert await raw_status(server.address, "Host: localhost") == 101
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_handshake_that_can_not_be_read_is_refused_at_once(server: RunningServer) -> None:
    assert await raw_status(server.address, "Host: localhost", "X-Long: " + "x" * 9000) == 101
    assert await raw_status(server.address, "Host: localhost", "X-Long: " + "x" * 70_000) == 431
    assert await raw_status(server.address, "Host: localhost", *(f"X-{n}: 1" for n in range(200))) == 431
    assert await raw_status(server.address, "Host: localhost", target=f"{PATH}?token={'x' * 70_000}") == 431
    assert await raw_status(server.address, "Host: localhost", "Content-Length: 3") == 400
    assert await raw_status(server.address, "Host: localhost", "Transfer-Encoding: chunked") == 400
    assert await raw_status(server.address, "Host: localhost", key="") == 400
    async with chat(server.address, token="dev:alice") as client:
        assert await user_of(client) == "alice"


# Tokens


async def test_without_a_token_a_client_is_the_developer(server: RunningServer) -> None:
    async with chat(server.address) as client:
        assert await user_of(client) == "developer"


async def test_the_token_of_the_header_says_who_it_is(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as alice, chat(server.address, token="dev:bob") as bob:
        assert await user_of(alice) == "alice"
        assert await user_of(bob) == "bob"


async def test_the_token_of_the_query_says_who_it_is_and_the_header_comes_first(server: RunningServer) -> None:
    async with chat(server.address, query="?token=dev:alice") as client:
        assert await user_of(client) == "alice"
    async with chat(server.address, query="?token=dev%3Aalice%3A9999999999") as client:
        assert await user_of(client) == "alice"
    async with chat(server.address, token="dev:bob", query="?token=dev:alice") as client:
        assert await user_of(client) == "bob"


@pytest.mark.parametrize(
    "header",
    ["Bearer nonsense", "Bearer dev:alice:1", "Bearer ", "Bearer", "Basic YTpi", "dev:alice"],
)
async def test_a_bad_token_is_accepted_and_then_closed_with_4401(server: RunningServer, header: str) -> None:
    async with chat(server.address, additional_headers={"Authorization": header}) as client:
        assert await close_code(client) == 4401
        assert client.events == []


@pytest.mark.parametrize("size", [9_000, 17_000, 60_000])
async def test_a_long_token_is_refused_so_that_a_browser_can_read_it(server: RunningServer, size: int) -> None:
    for options in ({"token": "x" * size}, {"query": f"?token={'x' * size}"}):
        async with chat(server.address, **options) as client:
            assert await close_code(client) == 4401


async def test_a_long_token_that_is_good_lets_its_user_in(tmp_path: Path) -> None:
    async with signing_realm() as realm:
        keycloak = {"auth": {"mode": "keycloak", "keycloak": {"realm_url": realm.url}}}
        token = realm.sign(padding="x" * 9_000)
        async with running_server(tmp_path, agents=ENTRIES, settings=keycloak) as server:
            for options in ({"token": token}, {"query": f"?token={token}"}):
                async with chat(server.address, **options) as client:
                    await client.send({"type": "ping"})
                    assert (await client.receive())["type"] == "pong"


@pytest.mark.parametrize("token", ["", "nonsense", "dev:", "dev:alice:1", "dev:al%20ice", "x" * 7000])
async def test_a_bad_token_in_the_query_is_accepted_and_then_closed_with_4401(
    server: RunningServer, token: str
) -> None:
    async with chat(server.address, query=f"?token={token}") as client:
        assert await close_code(client) == 4401


async def test_the_first_frame_may_authenticate(server: RunningServer, strict_server: RunningServer) -> None:
    for address in (server.address, strict_server.address):
        async with chat(address) as client:
            await client.send({"type": "authenticate", "access_token": "dev:alice"})
            assert await user_of(client) == "alice"
        async with chat(address, subprotocols=None) as client:
            await client.send({"type": "authenticate", "access_token": "dev:alice", "session_id": None})
            assert (await client.ask("hello", agent_id="echo"))[-1]["session"]["user_id"] == "alice"


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "authenticate", "access_token": "nonsense"},
        {"type": "authenticate", "access_token": "dev:alice:1"},
        {"type": "authenticate", "access_token": 5},
        {"type": "ask", "message": "hello", "access_token": "dev:alice"},
        {"type": "ping"},
        "not JSON",
        b"\xff\xff",
    ],
)
async def test_a_first_frame_that_does_not_authenticate_is_closed_with_4401(
    strict_server: RunningServer, frame: Any
) -> None:
    async with chat(strict_server.address) as client:
        await client.send(frame)
        assert await close_code(client) == 4401
        assert client.events == []


async def test_who_says_nothing_is_closed_with_4401(impatient_server: RunningServer) -> None:
    async with chat(impatient_server.address) as client:
        assert await close_code(client) == 4401


async def test_who_signs_in_while_the_loop_is_late_is_in_time(impatient_server: RunningServer) -> None:
    async with chat(impatient_server.address) as client:
        await client.send({"type": "authenticate", "access_token": "dev:alice"})
        time.sleep(0.8)
        await client.send({"type": "ping"})
        assert (await client.receive())["type"] == "pong"


async def test_a_client_that_leaves_before_it_authenticates_leaves_nothing_behind(strict_server: RunningServer) -> None:
    async with chat(strict_server.address):
        pass
    async with chat(strict_server.address, token="dev:alice") as client:
        assert await user_of(client) == "alice"


async def test_only_the_first_frame_may_say_who_it_is(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"type": "ping"})
        assert (await client.receive())["type"] == "pong"
        await client.send({"type": "authenticate", "access_token": "dev:alice"})
        refused = await client.receive()
        assert (refused["code"], refused["refused"]) == ("forbidden", "authenticate")
        assert await user_of(client) == "developer"


# Renewal and expiry


async def test_a_token_of_another_user_is_forbidden_and_changes_nothing(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as client:
        await client.send({"type": "authenticate", "access_token": "dev:bob"})
        refused = await client.receive()
        assert (refused["code"], refused["refused"], refused["retryable"]) == ("forbidden", "authenticate", False)
        [refused] = await client.ask("hello", agent_id="echo", access_token="dev:bob", client_exchange_id="x1")
        assert (refused["code"], refused["client_exchange_id"]) == ("forbidden", "x1")
        names = {"session_id": "s", "exchange_id": "e"}
        await client.send({"type": "human_resume", **names, "payload": {}, "access_token": "dev:bob"})
        refused = await client.receive()
        assert (refused["code"], refused["refused"], refused["exchange_id"]) == ("forbidden", "human_resume", "e")
        assert await user_of(client) == "alice"


@pytest.mark.parametrize("token", ["nonsense", "dev:alice:1"])
async def test_a_bad_token_later_on_is_told_and_then_closed_with_4401(server: RunningServer, token: str) -> None:
    code = "token_expired" if token.endswith(":1") else "unauthenticated"
    for frame in (
        {"type": "authenticate", "access_token": token},
        {"type": "ask", "message": "hello", "access_token": token},
        {"type": "human_resume", "session_id": "s", "exchange_id": "e", "payload": {}, "access_token": token},
    ):
        async with chat(server.address, token="dev:alice") as client:
            await client.send(frame)
            assert await close_code(client) == 4401
            [refused] = client.events
            assert (refused["code"], refused["refused"], refused["retryable"]) == (code, frame["type"], True)


async def test_nothing_is_heard_behind_a_bad_token(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"type": "authenticate", "access_token": "nonsense"})
        for number in range(20):
            await client.send(
                {"type": "ask", "message": "hello", "agent_id": "echo", "client_exchange_id": str(number)}
            )
        assert await close_code(client) == 4401
    assert [event["type"] for event in client.events] == ["error"]
    async with chat(server.address) as client:
        events = await client.ask("again", agent_id="echo", client_exchange_id="0")
        assert final_text(events) == "echo: again", "the ask behind the bad token has begun nothing"


async def test_a_socket_closes_with_4401_when_its_token_has_expired_and_its_exchange_goes_on(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert credentials.EXPIRY_LEEWAY_S <= 30
    monkeypatch.setattr(credentials, "EXPIRY_LEEWAY_S", 0)
    expires = int(time.time()) + TOKEN_S
    async with chat(server.address, token=f"dev:alice:{expires}") as client:
        await client.send({"message": f"wait {TOKEN_S + 1} seconds"})
        started = await client.until("started")
        assert await close_code(client) == 4401
        assert time.time() >= expires
    assert "final" not in [event["type"] for event in client.events]
    async with chat(server.address, token="dev:alice") as client:
        await client.send({"type": "follow", "exchange_id": started["exchange_id"]})
        final = await client.until("final")
        assert (final["status"], final["session"]["user_id"]) == ("ok", "alice")


@pytest.mark.parametrize("renewal", ["authenticate", "ask", "human_resume"])
async def test_a_renewed_token_keeps_the_socket_open(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, renewal: str
) -> None:
    monkeypatch.setattr(credentials, "EXPIRY_LEEWAY_S", 0)
    expires = int(time.time()) + TOKEN_S
    async with chat(server.address, token=f"dev:alice:{expires}") as client:
        later = {"access_token": f"dev:alice:{expires + 3600}", "refresh_token": "dev:alice"}
        if renewal == "authenticate":
            await client.send({"type": "authenticate", **later})
        elif renewal == "human_resume":
            # Also one that settles nothing.
            await client.send({"type": "human_resume", "session_id": "s", "exchange_id": "e", "payload": {}, **later})
            assert (await client.until("error"))["code"] == "exchange_not_found"
        else:
            await client.ask("hello", agent_id="echo", **later)
        await asyncio.sleep(expires + 0.5 - time.time())
        assert await user_of(client) == "alice"


async def test_a_shorter_token_ends_the_socket_sooner(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "EXPIRY_LEEWAY_S", 0)
    async with chat(server.address, token="dev:alice") as client:
        await client.send({"type": "authenticate", "access_token": f"dev:alice:{int(time.time()) + 2}"})
        assert await close_code(client) == 4401


# Frames of the WebSocket itself


async def test_a_frame_beyond_the_limit_closes_with_1009(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send(json.dumps({"message": "x" * 2_200_000}))
        assert await close_code(client) == 1009


async def test_a_text_frame_that_is_no_utf_8_closes_with_1007(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.socket.send(b"\xff\xfe", text=True)
        assert await close_code(client) == 1007


async def test_binary_and_fragmented_frames_are_read_as_text_frames_are(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send(b'{"type": "ping"}')
        assert await client.receive() == {"type": "pong"}
        await client.socket.send(iter(['{"type"', ': "pi', 'ng"}']))
        assert await client.receive() == {"type": "pong"}
        await client.send(b"")
        assert (await client.receive())["code"] == "bad_frame"


async def test_a_server_that_goes_closes_with_1012(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=ENTRIES) as server, asyncio.timeout(PATIENCE_S):
        socket = chat(server.address)
        client = await socket.__aenter__()
        assert await user_of(client) == "developer"
    assert await close_code(client) == 1012
    await socket.__aexit__(None, None, None)
