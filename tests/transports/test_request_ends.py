"""Where a request ends, on both listeners: each is answered once, and no byte of it is read as another request."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from support.chat_client import PATH, PATIENCE_S
from support.narrow_sockets import narrow_socket
from support.raw_http import Answer, answered, answers_in, received_for
from support.rest_client import PREFIX, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES

from agentic_backend.server.input import bounded_http, sliced_input
from agentic_backend.server.process import bind
from agentic_backend.transports import sse

pytestmark = pytest.mark.asyncio(loop_scope="module")

SESSIONS = f"{PREFIX}/sessions"
LISTENERS = ["address", "internal"]
# A path of each listener that is found.
FOUND = {"address": f"{PREFIX}/info", "internal": "/health/live"}
HANDSHAKE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
TITLED = b'{"title": "read to its end"}'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    """One for all tests of this file."""
    async with running_server(
        tmp_path_factory.mktemp("server"), agents=ENTRIES, settings={"limits": {"empty_sessions_per_user": None}}
    ) as server:
        yield server


def request(target: str, *fields: str, method: str = "GET", version: str = "1.1", body: bytes = b"") -> bytes:
    """A request for the host `localhost`, unless the fields name another one."""
    host = [] if any(field.lower().startswith("host:") for field in fields) else ["Host: localhost"]
    return "\r\n".join([f"{method} {target} HTTP/{version}", *host, *fields, "", ""]).encode() + body


def last(target: str = "/nothing", **named: Any) -> bytes:
    """A request that ends the connection, and that only its own answer can be the answer to."""
    return request(target, "Connection: close", "X-Request-Id: the-last", **named)


def check_last(answer: Answer, status: int = 404) -> None:
    assert (answer.status, answer.headers["x-request-id"]) == (status, "the-last")


def check_refused(answer: Answer, status: int, code: str) -> None:
    """As every refusal, with the client's id, and the connection's end."""
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"], error["retryable"]) == (status, code, False)
    assert answer.headers["x-request-id"] == error["request_id"] and answer.headers["traceparent"]
    assert answer.headers["connection"] == "close"


# Upgrades


UPGRADES = [
    ["Upgrade: x", "Connection: Upgrade"],
    ["Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"],
    ["Connection: keep-alive, upgrade", "Upgrade: websocket, x"],
    ["Connection: upgrade", "Upgrade: TLS/1.0, HTTP/2.0"],
    ["Upgrade: x", "Proxy-Connection: upgrade"],
    ["Upgrade: x", "Connection: Upgrade", "Expect: 100-continue"],
    # That of a WebSocket, which begins with GET.
    [*HANDSHAKE],
]


@pytest.mark.parametrize("upgrade", UPGRADES, ids=lambda fields: fields[0])
@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (f"Content-Length: {len(TITLED)}", TITLED),
        ("Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(TITLED), TITLED)),
    ],
    ids=["length", "chunks"],
)
async def test_an_unknown_upgrade_is_ignored_and_its_body_read(
    server: RunningServer, upgrade: list[str], framing: str, body: bytes
) -> None:
    asking = request(SESSIONS, *upgrade, framing, "Content-Type: application/json", method="POST", body=body)
    opened, after = await answered(server.address, asking + last())
    assert (opened.status, json.loads(opened.body)["title"]) == (201, "read to its end")
    check_last(after)


async def test_a_body_that_looks_like_a_request_is_none(server: RunningServer) -> None:
    for listener, address in (("address", server.address), ("internal", server.internal)):
        hidden = request(FOUND[listener], "X-Request-Id: hidden")
        for framing, body in (
            (f"Content-Length: {len(hidden)}", hidden),
            ("Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(hidden), hidden)),
        ):
            asking = request("/nothing", *UPGRADES[0], framing, method="POST", body=body)
            first, second = await answered(address, asking + last())
            assert first.status == 404
            check_last(second)


async def test_an_upgrade_is_ignored_wherever_the_network_splits_it(server: RunningServer) -> None:
    asking = request(
        SESSIONS,
        *UPGRADES[0],
        f"Content-Length: {len(TITLED)}",
        "Content-Type: application/json",
        method="POST",
        body=TITLED,
    )
    for place in range(1, len(asking), 3):
        opened, after = await answered(server.address, asking[:place], asking[place:] + last())
        assert (opened.status, json.loads(opened.body)["title"]) == (201, "read to its end"), asking[:place]
        check_last(after)


async def test_so_is_one_behind_other_requests(server: RunningServer) -> None:
    found = request(FOUND["address"])
    asking = request("/nothing", *UPGRADES[0], "Content-Length: 3", method="POST", body=b"abc")
    answers = await answered(server.address, found + asking + found + asking + last())
    assert [answer.status for answer in answers] == [200, 404, 200, 404, 404]
    check_last(answers[-1])


@pytest.mark.parametrize("listener", LISTENERS)
async def test_a_tunnel_is_refused(server: RunningServer, listener: str) -> None:
    asking = request("elsewhere:443", "Host: elsewhere:443", method="CONNECT")
    [refused] = await answered(getattr(server, listener), asking + last())
    check_refused(refused, 405, "method_not_allowed")
    assert "POST" in refused.headers["allow"]


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("target", ["/nothing", f"{PREFIX}/agents", f"{PATH}/more"])
async def test_an_upgrade_at_another_path_is_404(server: RunningServer, listener: str, target: str) -> None:
    [refused] = await answered(getattr(server, listener), request(target, *HANDSHAKE, "X-Request-Id: mine"))
    assert (refused.status, json.loads(refused.body)["error"]["code"]) == (404, "not_found")
    assert refused.headers["x-request-id"] == json.loads(refused.body)["error"]["request_id"] == "mine"


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
async def test_the_path_of_the_websocket_needs_an_upgrade(server: RunningServer, method: str) -> None:
    for fields in ([], ["Upgrade: h2c", "Connection: Upgrade"], ["Upgrade: websocket"]):
        refused, after = await answered(server.address, request(PATH, *fields, method=method) + last())
        assert (refused.status, json.loads(refused.body)["error"]["code"]) == (426, "bad_frame")
        assert (refused.headers["upgrade"], refused.headers["connection"]) == ("websocket", "upgrade")
        check_last(after)


@pytest.mark.parametrize(
    "fields",
    [
        HANDSHAKE[:2],
        HANDSHAKE[:3],
        (*HANDSHAKE[:2], "Sec-WebSocket-Version: 12", HANDSHAKE[3]),
        (*HANDSHAKE[:3], "Sec-WebSocket-Key: short"),
    ],
)
async def test_a_handshake_that_is_none_is_refused_as_every_request(
    server: RunningServer, fields: tuple[str, ...]
) -> None:
    [refused] = await answered(server.address, request(PATH, *fields, "X-Request-Id: mine"))
    check_refused(refused, 400, "bad_frame")
    assert (refused.headers["x-request-id"], refused.headers["sec-websocket-version"]) == ("mine", "13")


async def test_a_handshake_may_name_its_host_in_its_target(server: RunningServer) -> None:
    parts = urlsplit(server.address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(request(f"http://localhost{PATH}", *HANDSHAKE))
    async with asyncio.timeout(PATIENCE_S):
        assert b" 101 " in await reader.readline()
    writer.close()


# Heads


HEADS: list[tuple[str, bytes, int]] = [
    ("two hosts", b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
    ("no host", b"GET / HTTP/1.1\r\n\r\n", 400),
    ("a host with a path", request("/", "Host: localhost/x"), 400),
    ("a host with a user", request("/", "Host: x@localhost"), 400),
    ("a host with a fragment", request("/", "Host: localhost#x"), 400),
    ("a target of another host", request("http://elsewhere/"), 400),
    ("a target with a fragment", request("/#x"), 400),
    ("two tokens", request("/", "Authorization: Bearer dev:alice", "Authorization: Bearer dev:bob"), 400),
    ("two origins", request("/", "Origin: http://localhost", "Origin: http://localhost"), 400),
    ("length and chunks", request("/", "Content-Length: 3", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"), 400),
    ("chunks and length", request("/", "Transfer-Encoding: chunked", "Content-Length: 3", body=b"0\r\n\r\n"), 400),
    ("two lengths", request("/", "Content-Length: 3", "Content-Length: 3", body=b"abc"), 400),
    ("more than chunks", request("/", "Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), 400),
    ("chunks twice", request("/", *["Transfer-Encoding: chunked"] * 2, body=b"0\r\n\r\n"), 400),
    ("chunks in HTTP/1.0", request("/", "Transfer-Encoding: chunked", version="1.0", body=b"0\r\n\r\n"), 400),
    ("another version", request("/", version="2.0"), 505),
    ("no version", b"GET /\r\n\r\n", 505),
    ("no HTTP", b"\x00\xff\r\n\r\n", 400),
    ("a space before a colon", request("/", "X-Odd : 1"), 400),
    ("a folded field", request("/", "X-Odd: 1\r\n 2"), 400),
    ("a line without a carriage return", b"GET / HTTP/1.1\r\nHost: localhost\nX-Odd: 1\r\n\r\n", 400),
]


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize(("head", "status"), [case[1:] for case in HEADS], ids=[case[0] for case in HEADS])
async def test_a_head_that_can_be_read_in_two_ways_ends_the_connection(
    server: RunningServer, listener: str, head: bytes, status: int
) -> None:
    [refused] = await answered(getattr(server, listener), head + last())
    check_refused(refused, status, "bad_frame")


async def test_a_refusal_by_the_parser_has_the_id_that_the_client_gave(server: RunningServer) -> None:
    [refused] = await answered(server.address, request("/", "X-Request-Id: mine", "Host: a", "Host: b"))
    check_refused(refused, 400, "bad_frame")
    assert refused.headers["x-request-id"] == "mine"
    # HEAD is answered without a body, however it is.
    [refused] = await answered(server.address, request("/", "Host: a@b", method="HEAD"), methods=["HEAD"])
    assert (refused.status, refused.body) == (400, b"")
    answers = await answered(server.address, request("/", method="HEAD") + b"rubbish\r\n\r\n", methods=["HEAD"])
    check_refused(answers[1], 400, "bad_frame")


async def test_requests_before_a_refused_one_are_answered_first(server: RunningServer) -> None:
    found, refused = request(FOUND["address"]), request("/", "Host: a@b")
    body = request(SESSIONS, "Transfer-Encoding: chunked", method="POST", body=b"rubbish\r\n")
    for before in (1, 2, 20):
        for bad in (refused, b"rubbish\r\n\r\n", body):
            answers = await answered(server.address, found * before + bad + last())
            assert [answer.status for answer in answers] == [200] * before + [400]
            check_refused(answers[-1], 400, "bad_frame")


async def test_who_reads_slowly_gets_all_answers_before_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sliced_input, "_LINGER_S", 0.05)
    count = 100
    with bind("127.0.0.1", 0) as bound:
        # What the client doesn't read waits in the server, and not in the kernel.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        async with running_server(tmp_path, bound=bound) as server, narrow_socket(server.address) as narrow:
            reader, writer = await asyncio.open_connection(sock=narrow, limit=1_024)
            writer.write(request(FOUND["address"]) * count + b"rubbish\r\n\r\n")
            received = b""
            async with asyncio.timeout(PATIENCE_S):
                while piece := await reader.read(4_096):
                    received += piece
                    await asyncio.sleep(0.01)
            writer.close()
    assert [answer.status for answer in answers_in(received)] == [200] * count + [400]


# Trailers


async def test_a_trailer_is_no_header(server: RunningServer) -> None:
    chunks = b"2\r\n{}\r\n0\r\nAuthorization: Bearer dev:alice\r\nOrigin: https://evil.example\r\nHost: a@b\r\n\r\n"
    fields = ("Transfer-Encoding: chunked", "Trailer: Authorization", "Content-Type: application/json")
    asking = request(SESSIONS, *fields, method="POST", body=chunks)
    opened, after = await answered(server.address, asking + last())
    assert (opened.status, json.loads(opened.body)["user_id"]) == (201, "developer")
    check_last(after)


@pytest.mark.parametrize("endless", [b"X-Long: " + b"x" * 200_000, b"a: b\r\n" * 200], ids=["one", "many"])
@pytest.mark.parametrize("framing", [b"0\r\n", b"1;ext="], ids=["trailers", "extension"])
async def test_neither_trailers_nor_extensions_are_read_without_end(
    server: RunningServer, framing: bytes, endless: bytes
) -> None:
    if framing != b"0\r\n":
        endless = b"x" * 200_000
    asking = request(SESSIONS, "Transfer-Encoding: chunked", method="POST", body=framing + endless)
    [refused] = await answered(server.address, asking)
    check_refused(refused, 431, "message_too_large")


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("trailer", [b"Connection: close", b"Proxy-Connection: close"])
async def test_a_trailer_leaves_nobody_without_an_answer(server: RunningServer, listener: str, trailer: bytes) -> None:
    """The parser swallows what follows: the connection's end says so, and whoever is next asks again."""
    for upgrade in ([], UPGRADES[0]):
        asking = request("/nothing", *upgrade, "Transfer-Encoding: chunked", method="POST", body=b"0\r\n")
        [answer] = await answered(getattr(server, listener), asking, trailer + b"\r\n\r\n" + last())
        assert answer.status == 404


# Answers


async def test_a_request_has_one_answer_whatever_comes_behind_it(server: RunningServer) -> None:
    early = request("/nothing", "Transfer-Encoding: chunked", method="POST", body=b"5\r\nhello\r\n")
    for sent in ((early, b"ZZ\r\n" + last()), (request("/nothing"), b"\r\n" * 50_000)):
        parts = urlsplit(server.address)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(sent[0])
        async with asyncio.timeout(PATIENCE_S):
            begun = await reader.readuntil(b"}}")
            with suppress(ConnectionError):
                writer.write(sent[1])
                await writer.drain()
                begun += await reader.read()
        writer.close()
        [answer] = answers_in(begun)
        assert answer.status == 404


async def test_lines_behind_a_request_do_not_take_its_answer(server: RunningServer) -> None:
    found, refused = await answered(server.address, request(FOUND["address"]) + b"\r\n" * 50_000)
    assert (found.status, refused.status) == (200, 431)


async def test_bytes_between_requests_keep_no_connection_open(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_http, "HEAD_TIMEOUT_S", 1)
    early = request("/nothing", "Content-Length: 5", method="POST")
    ways = ((request("/nothing"), b"\r\n"), (early, b"hello"))
    for received in await asyncio.gather(*(received_for(server.address, *pieces, pause_s=0.2) for pieces in ways)):
        [answer] = answers_in(received)
        assert answer.status == 404


async def test_the_beginning_of_a_request_does_not_end_an_answer(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_http, "HEAD_TIMEOUT_S", 0.3)
    async with rest(server) as http:
        session_id = (await http.post("/sessions", json={})).json()["id"]
    body = b'{"content": "wait 1 second"}'
    fields = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    asking = request(f"{SESSIONS}/{session_id}/messages", *fields, method="POST", body=body)
    [told] = await answered(server.address, asking + b"GET / HT")
    assert b"event: final" in told.body


async def test_an_answer_to_http_1_0_ends_with_its_connection(server: RunningServer) -> None:
    async with rest(server) as http:
        session_id = (await http.post("/sessions", json={})).json()["id"]
    body = b'{"content": "hello"}'
    fields = ("Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: keep-alive")
    asking = request(f"{SESSIONS}/{session_id}/messages", *fields, method="POST", version="1.0", body=body)
    [told] = await answered(server.address, asking)
    assert "transfer-encoding" not in told.headers and "content-length" not in told.headers
    events = [line for line in told.body.decode().splitlines() if line.startswith("event: ")]
    assert (events[0], events[-1]) == ("event: started", "event: final")
    for target, method in ((f"{SESSIONS}/{session_id}/messages", "GET"), (f"{SESSIONS}/{session_id}/export", "HEAD")):
        asking = request(target, method=method, version="1.0")
        [told] = await answered(server.address, asking, methods=[method])
        assert told.status == 200 and "transfer-encoding" not in told.headers
        assert method == "HEAD" or json.loads(told.body)["next_rank"] == 2


async def test_a_body_that_was_not_asked_for_need_not_come(server: RunningServer) -> None:
    """A client that waits for `100 Continue` and gets an answer instead may send its next request or its body."""
    fields = ("Authorization: Basic YTpi", "Expect: 100-continue", "Content-Length: 200")
    asking = request(SESSIONS, *fields, method="POST")
    [refused] = await answered(server.address, asking, last())
    assert (refused.status, refused.headers["connection"]) == (401, "close")


# Clients that only listen


async def test_who_ends_their_side_gets_all_answers(server: RunningServer) -> None:
    for address, target in ((server.address, FOUND["address"]), (server.internal, FOUND["internal"])):
        for count in (1, 3):
            answers = await answered(address, request(target) * count, ends=True)
            assert [answer.status for answer in answers] == [200] * count


async def test_who_ends_their_side_gets_an_answer_that_takes_its_time(server: RunningServer) -> None:
    async with rest(server) as http:
        session_id = (await http.post("/sessions", json={})).json()["id"]
    body = b'{"content": "wait 3 seconds"}'
    fields = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    asking = request(f"{SESSIONS}/{session_id}/messages", *fields, method="POST", body=body)
    [told] = await answered(server.address, asking, ends=True)
    assert b"event: final" in told.body


async def test_who_ends_their_side_in_the_middle_of_a_request_is_told_so(server: RunningServer) -> None:
    fields = (f"Content-Length: {len(TITLED)}", "Content-Type: application/json", "Authorization: Bearer dev:ending")
    whole = request(SESSIONS, *fields, method="POST")
    for sent in (whole[:30], whole, whole + TITLED[:5]):
        [refused] = await answered(server.address, sent, ends=True)
        check_refused(refused, 400, "bad_frame")
    assert await received_for(server.address, b"", ends=True) == b""
    # What is whole is answered.
    found, refused = await answered(server.address, request(FOUND["address"]) + whole[:30], ends=True)
    assert found.status == 200
    check_refused(refused, 400, "bad_frame")
    async with rest(server, "dev:ending") as http:
        assert (await http.get("/sessions")).json() == {"sessions": []}


async def test_who_has_gone_is_missed_whatever_they_have_asked_for_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that nobody reads gives its place back, also where another request waits behind it."""
    monkeypatch.setattr(sse, "_COMMENT_EVERY_S_TO_LISTENER", 0.05)
    async with running_server(tmp_path, agents=ENTRIES, settings={"limits": {"sockets_per_user": 1}}) as server:
        async with rest(server) as http:
            session_id = (await http.post("/sessions", json={})).json()["id"]
            followed = f"{SESSIONS}/{session_id}/events"
            for behind in (b"", request(FOUND["address"])):
                parts = urlsplit(server.address)
                _, writer = await asyncio.open_connection(parts.hostname, parts.port)
                writer.write(request(followed))
                async with asyncio.timeout(PATIENCE_S):
                    while (await status_of_stream(http, session_id)) != 429:
                        await asyncio.sleep(0.02)
                    writer.write(behind)
                    await writer.drain()
                    writer.close()
                    while (await status_of_stream(http, session_id)) != 200:
                        await asyncio.sleep(0.02)


async def status_of_stream(http: Any, session_id: str) -> int:
    async with http.stream("GET", f"/sessions/{session_id}/events") as answer:
        status: int = answer.status_code
        return status
