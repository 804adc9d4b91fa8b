"""What REST refuses before a call is reached: tokens, origins, hosts, methods, paths, bodies."""

import asyncio
import json
import re
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
from support.chat_client import PATIENCE_S
from support.log_lines import warnings_of
from support.rest_client import PREFIX, error_of, plain_http, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES

from agentic_backend.server.input import bounded_http

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATHS = ["/agents", "/sessions", "/sessions/s", "/sessions/s/messages", "/exchanges/e"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    """One for all tests of this file."""
    async with running_server(tmp_path_factory.mktemp("server"), agents=ENTRIES) as server:
        yield server


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("Bearer nonsense", "unauthenticated"),
        ("Bearer dev:alice:1", "token_expired"),
        ("Bearer", "unauthenticated"),
        ("Basic YTpi", "unauthenticated"),
        ("dev:alice", "unauthenticated"),
        ("Bearer " + "x" * 20_000, "unauthenticated"),
    ],
)
async def test_a_bad_token_is_refused_by_every_call(server: RunningServer, header: str, code: str) -> None:
    async with rest(server, Authorization=header) as http:
        for path in PATHS:
            response = await http.get(path)
            error = error_of(response)
            assert (response.status_code, error["code"], error["retryable"]) == (401, code, True)
            assert response.headers["www-authenticate"] == "Bearer"


async def test_a_token_in_the_query_is_no_token_for_rest(server: RunningServer) -> None:
    async with rest(server) as http:
        session = (await http.post("/sessions?token=dev:alice")).json()
        assert session["user_id"] == "developer"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
async def test_a_foreign_origin_is_refused_by_every_call(server: RunningServer, origin: str) -> None:
    async with rest(server, "dev:alice", Origin=origin) as http:
        for method, path in [*(("GET", path) for path in PATHS), ("POST", "/sessions"), ("OPTIONS", "/sessions")]:
            response = await http.request(method, path)
            assert (response.status_code, error_of(response)["code"]) == (403, "forbidden")
            assert "access-control-allow-origin" not in response.headers
    async with rest(server, "dev:alice") as http:
        assert (await http.get("/sessions")).json() == {"sessions": []}


async def test_the_servers_own_origin_is_served(server: RunningServer) -> None:
    async with rest(server, Origin=server.address) as http:
        assert (await http.get("/agents")).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example"])
async def test_a_foreign_host_name_is_refused(server: RunningServer, host: str) -> None:
    async with rest(server, Host=host) as http:
        response = await http.get("/agents")
        assert (response.status_code, error_of(response)["code"]) == (400, "bad_frame")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/sessions/s", 405),
        ("DELETE", "/sessions", 405),
        ("POST", "/agents", 405),
        ("GET", "/sessions/s/complete", 405),
        ("PATCH", "/sessions/s/messages", 405),
        ("TRACE", "/sessions", 405),
        ("GET", "/nothing", 404),
        ("GET", "/sessions/s/nothing", 404),
        ("GET", "/sessions/s/messages/1", 404),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "", 404),
        ("GET", "/sessions/", 404),
        ("POST", "/chatbot/session/", 404),
        ("OPTIONS", "/sessions", 405),
        ("OPTIONS", "/nothing", 404),
        ("OPTIONS", "/exchanges/e/resume", 405),
        ("PUT", "/chatbot/sessions", 405),
        ("POST", "/chatbot/session/s/history", 405),
        ("DELETE", "/metrics/chatbot/summary", 405),
        ("POST", "/sign-in", 405),
        ("QUERY", "/agents", 405),
    ],
)
async def test_wrong_methods_and_paths_are_errors_of_the_same_form(
    server: RunningServer, method: str, path: str, status: int
) -> None:
    async with rest(server) as http:
        response = await http.request(method, path)
        error = error_of(response)
        code = {404: "not_found", 405: "method_not_allowed"}[status]
        assert (response.status_code, error["code"], error["retryable"]) == (status, code, False)
        assert ("allow" in response.headers) is (status == 405)


async def test_a_wrong_method_is_told_all_that_are_right(server: RunningServer) -> None:
    async with rest(server) as http:
        for path, allowed in (
            ("/sessions", "GET, HEAD, POST"),
            ("/sessions/s", "DELETE, GET, HEAD, PATCH"),
            ("/sessions/s/messages", "GET, HEAD, POST"),
            ("/sessions/s/complete", "POST"),
        ):
            response = await http.put(path)
            assert (response.status_code, response.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/", 405),
        ("PUT", "/static/chat.js", 405),
        ("GET", "/static/nothing.js", 404),
        ("GET", "/static", 404),
        ("GET", "/nothing", 404),
    ],
)
async def test_so_are_those_of_the_page(server: RunningServer, method: str, path: str, status: int) -> None:
    async with plain_http(base_url=server.address) as http:
        response = await http.request(method, path)
    assert (response.status_code, error_of(response)["code"]) == (
        status,
        {404: "not_found", 405: "method_not_allowed"}[status],
    )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/metrics", 405),
        ("OPTIONS", "/health/ready", 405),
        ("DELETE", "/log", 405),
        ("GET", "/health/live/", 404),
        ("GET", "/", 404),
        ("GET", "/agentic/v1/sessions", 404),
    ],
)
async def test_so_are_those_of_the_internal_listener(
    server: RunningServer, method: str, path: str, status: int
) -> None:
    async with plain_http(base_url=server.internal) as http:
        response = await http.request(method, path)
    assert (response.status_code, error_of(response)["code"]) == (
        status,
        {404: "not_found", 405: "method_not_allowed"}[status],
    )


async def test_head_is_answered_as_get_is_without_a_body(server: RunningServer) -> None:
    async with rest(server) as http:
        for path, status in (("/agents", 200), ("/nothing", 404), ("/sessions/s/complete", 405)):
            response = await http.head(path)
            assert (response.status_code, response.content) == (status, b"")


async def test_a_body_beyond_the_limit_is_refused_and_the_server_goes_on(server: RunningServer) -> None:
    async with rest(server) as http:
        for path in ("/sessions", "/sessions/s/messages", "/sessions/s/complete"):
            response = await http.post(path, content=b" " * 2_097_153)
            error = error_of(response)
            assert (response.status_code, error["code"]) == (413, "message_too_large")
            assert "2097152" in error["content"]
        assert (await http.get("/agents")).status_code == 200


async def test_a_request_that_breaks_off_is_no_error_of_the_server(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    parts = urlsplit(server.address)
    for _ in range(5):
        _, writer = await asyncio.open_connection(parts.hostname, parts.port)
        head = f"POST {PREFIX}/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer dev:leaving"
        writer.write(f"{head}\r\nContent-Length: 100\r\n\r\n{{".encode())
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.transport.abort()
    async with rest(server, "dev:leaving") as http:
        assert (await http.get("/sessions")).json() == {"sessions": []}
    assert warnings_of(caplog.records) == []


async def test_what_is_no_http_is_refused(server: RunningServer) -> None:
    parts = urlsplit(server.address)
    for garbage in (b"\x00\xff\r\n\r\n", b"hello\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(garbage)
        async with asyncio.timeout(PATIENCE_S):
            assert b" 400 " in await reader.readline()
        writer.transport.abort()


async def test_a_head_without_end_is_refused(server: RunningServer) -> None:
    parts = urlsplit(server.address)
    for endless in (b"X-Long: " + b"x" * 9_000_000, b"X-Many: 1\r\n" * 500_000):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(b"GET /agentic/v1/agents HTTP/1.1\r\nHost: localhost\r\n")
        with suppress(ConnectionError):
            for start in range(0, len(endless), 10_000):
                writer.write(endless[start : start + 10_000])
                await writer.drain()
            raise AssertionError("all of it was read")
        with suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE_S):
                assert b" 431 " in await reader.readline()
        writer.transport.abort()
    async with rest(server, **{"X-Long": "x" * 30_000}) as http:
        for _ in range(5):
            assert (await http.get("/agents")).status_code == 200


async def test_a_body_that_nobody_hears_any_more_ends_the_connection(server: RunningServer) -> None:
    parts = urlsplit(server.address)
    heads = {
        "Content-Length: 10000000000": b"x" * 65_536,
        "Transfer-Encoding: chunked": b"10000\r\n" + b"x" * 65_536 + b"\r\n",
    }
    for framing, piece in heads.items():
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(f"GET /agentic/v1/agents HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE_S):
            assert b" 200 " in await reader.readline()
            with suppress(ConnectionError):
                for _ in range(1_000):
                    writer.write(piece)
                    await writer.drain()
                raise AssertionError("64 MB were read behind an answer")
        writer.transport.abort()


async def test_a_body_in_tiny_pieces_is_refused(server: RunningServer) -> None:
    parts = urlsplit(server.address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(b"POST /agentic/v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    writer.write(b"1\r\n \r\n" * 2_000)
    async with asyncio.timeout(PATIENCE_S):
        assert b" 400 " in await reader.readline()
    writer.transport.abort()


async def test_trailers_have_a_bound(server: RunningServer) -> None:
    parts = urlsplit(server.address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(b"POST /agentic/v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    writer.write(b"0\r\n" + b"a: b\r\n" * 200)
    async with asyncio.timeout(PATIENCE_S):
        assert b" 431 " in await reader.readline()
    writer.transport.abort()


async def test_pipelined_requests_are_answered_in_their_order(server: RunningServer) -> None:
    parts = urlsplit(server.address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    known = b"GET /agentic/v1/agents HTTP/1.1\r\nHost: localhost\r\n\r\n"
    unknown = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    writer.write((known + unknown) * 100 + last)
    async with asyncio.timeout(PATIENCE_S):
        received = await reader.read()
    statuses = re.findall(rb"HTTP/1\.1 (\d+)", received)
    assert statuses == [b"200", b"404"] * 100 + [b"404"]
    writer.close()


async def test_a_long_token_is_refused_as_every_bad_one(server: RunningServer) -> None:
    async with rest(server) as http:
        for size in (17_000, 60_000):
            response = await http.get("/agents", headers={"Authorization": "Bearer " + "x" * size})
            assert (response.status_code, error_of(response)["code"]) == (401, "unauthenticated")


async def test_a_head_that_does_not_come_is_not_awaited(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bounded_http.HEAD_TIMEOUT_S <= 30
    monkeypatch.setattr(bounded_http, "HEAD_TIMEOUT_S", 1)
    parts = urlsplit(server.address)
    whole = b"GET /agentic/v1/agents HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def check(sent: bytes) -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(sent)
        async with asyncio.timeout(PATIENCE_S):
            received = await reader.read()
        assert received.startswith(b"HTTP/1.1 200") if sent.startswith(whole) else received == b""
        writer.close()

    await asyncio.gather(*map(check, (b"", whole[:20], whole + whole[:20])))


async def test_a_slow_response_is_not_taken_for_a_head_that_does_not_come(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rest(server) as http:
        session_id = (await http.post("/sessions", json={})).json()["id"]
    monkeypatch.setattr(bounded_http, "HEAD_TIMEOUT_S", 1)
    async with rest(server) as http:
        response = await http.post(f"/sessions/{session_id}/messages", json={"content": "wait 2 seconds"})
        assert "event: final" in response.text


async def test_refusals_carry_the_security_headers_and_no_stack(server: RunningServer) -> None:
    async with rest(server) as http:
        responses: list[httpx.Response] = [
            await http.get("/agents"),
            await http.get("/sessions/s"),
            await http.get("/nothing"),
            await http.get("/agents", headers={"Origin": "https://evil.example"}),
        ]
        for response in responses:
            assert response.headers["x-content-type-options"] == "nosniff"
            assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
            assert "Traceback" not in response.text
            json.loads(response.text)


async def test_every_request_has_its_own_request_id(server: RunningServer) -> None:
    async with rest(server) as http:
        ids = {error_of(await http.get("/sessions/s"))["request_id"] for _ in range(5)}
        assert len(ids) == 5


def b64(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("params", "names"),
    [
        ({"limit": "0"}, "limit:"),
        ({"limit": "-1"}, "limit:"),
        ({"limit": "ten"}, "limit:"),
        ({"limit": "1.5"}, "limit:"),
        ({"limit": "9" * 5000}, "limit:"),
        ({"state": "ended"}, "state:"),
        ({"cursor": "nonsense"}, "cursor:"),
        ({"cursor": "ä"}, "cursor:"),
        ({"cursor": "WyIyMDI2IiwgMV0="}, "cursor:"),
        ({"limit": "\uff11"}, "limit:"),
        ({"limit": "1_0"}, "limit:"),
        ({"limit": "+1"}, "limit:"),
        ({"q": "x" * 201}, "q:"),
        ({"q": "a\x00b"}, "q:"),
        ({"q": "\x1b[2J"}, "q:"),
        ({"q": "\x7f"}, "q:"),
        ({"cursor": b64('["0001-01-01T00:00:00+14:00","x"]')}, "cursor:"),
        ({"cursor": b64('["9999-12-31T23:59:59-14:00","x"]')}, "cursor:"),
        ({"cursor": b64('["10000-01-01T00:00:00Z","x"]')}, "cursor:"),
        ({"cursor": b64('["2026-01-01T00:00:00+24:00","x"]')}, "cursor:"),
    ],
)
async def test_wrong_parameters_of_the_list_are_named(
    server: RunningServer, params: dict[str, str], names: str
) -> None:
    async with rest(server) as http:
        response = await http.get("/sessions", params=params)
        assert (response.status_code, error_of(response)["code"]) == (400, "bad_frame")
        assert error_of(response)["content"].startswith(names)
