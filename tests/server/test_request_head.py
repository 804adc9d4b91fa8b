"""Heads that two readers could understand differently: for whom a request is, who sends it, and where its body ends."""

import pytest

from agentic_backend.server.input.request_head import RequestRefused, asks_for_websocket, origin_form

HOST = (b"host", b"chat.example:8000")
WEBSOCKET = ((b"connection", b"keep-alive, Upgrade"), (b"upgrade", b"WebSocket"))


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/", b"/"),
        (b"/a?b=c?d", b"/a?b=c?d"),
        (b"//chat.example/a", b"//chat.example/a"),
        (b"http://chat.example:8000/a?b", b"/a?b"),
        (b"HTTPS://CHAT.example:8000/a", b"/a"),
        (b"http://chat.example:8000", b"/"),
        (b"http://chat.example:8000?b", b"/?b"),
    ],
)
def test_a_target_is_its_path_in_each_of_its_forms(target: bytes, path: bytes) -> None:
    assert origin_form(b"GET", target, "1.1", [HOST]) == path


@pytest.mark.parametrize("host", [b"", b"a", b"A.b-c_d~e.", b"a:1", b"a:", b"127.0.0.1:65535", b"[::1]", b"[::1]:80"])
def test_a_host_is_a_name_or_an_address_with_or_without_a_port(host: bytes) -> None:
    assert origin_form(b"GET", b"/", "1.1", [(b"host", host)]) == b"/"


@pytest.mark.parametrize(
    "host",
    [
        *[
            b"a/b",
            b"a?b",
            b"a#b",
            b"u@a",
            b"u:p@a",
            b"a b",
            b"a,b",
            b"a;b",
            b"a\\b",
            b"http://a",
            b"a:b",
            b"a:-1",
            b"a:1:2",
        ],
        *[b"a:123456", b":80", b"::1", b"[::1", b"[::1]a", b"[a]:1]", b"a%00", b"\xc3\xa4", b"a\t", b"[::1%25eth0]"],
    ],
)
def test_a_host_is_nothing_else(host: bytes) -> None:
    with pytest.raises(RequestRefused) as refused:
        origin_form(b"GET", b"/", "1.1", [(b"host", host)])
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "target",
    [
        b"*",
        b"",
        b"a",
        b"chat.example:8000",
        b"/a#b",
        b"http://elsewhere/a",
        b"http://chat.example/a",
        b"http://u@chat.example:8000/a",
        b"http:///a",
        b"http://",
        b"http:/a",
        b"ftp://chat.example:8000/a",
        b"ws://chat.example:8000/a",
        b"http://chat.example:8000#b",
        b"http://chat.example:8000@elsewhere/",
    ],
)
def test_a_target_is_for_this_host_and_whole(target: bytes) -> None:
    with pytest.raises(RequestRefused) as refused:
        origin_form(b"GET", target, "1.1", [HOST])
    assert refused.value.status == 400


def test_all_of_the_server_may_be_asked_for_its_options() -> None:
    assert origin_form(b"OPTIONS", b"*", "1.1", [HOST]) == b"*"


@pytest.mark.parametrize(
    "name",
    [
        *[b"authorization", b"content-length", b"content-type", b"expect", b"host", b"last-event-id", b"origin"],
        *[b"sec-websocket-key", b"sec-websocket-version", b"transfer-encoding"],
    ],
)
def test_what_is_read_once_is_given_once(name: bytes) -> None:
    value = {b"host": b"chat.example:8000", b"transfer-encoding": b"chunked"}.get(name, b"1")
    fields = [] if name == b"host" else [HOST]
    assert origin_form(b"POST", b"/", "1.1", [*fields, (name, value)]) == b"/"
    with pytest.raises(RequestRefused) as refused:
        origin_form(b"POST", b"/", "1.1", [*fields, (name, value), (name, value)])
    assert refused.value.status == 400 and str(refused.value).startswith(f"{name.decode()}:")


@pytest.mark.parametrize(
    "encoding",
    [b"gzip, chunked", b"chunked, chunked", b"chunked, identity", b"identity", b"xchunked", b"chunked;q=1", b""],
)
def test_a_body_is_encoded_by_chunks_alone(encoding: bytes) -> None:
    with pytest.raises(RequestRefused) as refused:
        origin_form(b"POST", b"/", "1.1", [HOST, (b"transfer-encoding", encoding)])
    assert refused.value.status == 400


def test_a_body_ends_by_its_length_or_by_its_last_chunk() -> None:
    chunked, length = (b"transfer-encoding", b"Chunked"), (b"content-length", b"3")
    for one in (chunked, length):
        assert origin_form(b"POST", b"/", "1.1", [HOST, one]) == b"/"
    for version, fields in (("1.1", [chunked, length]), ("1.1", [length, chunked]), ("1.0", [chunked])):
        with pytest.raises(RequestRefused) as refused:
            origin_form(b"POST", b"/", version, [HOST, *fields])
        assert refused.value.status == 400


def test_http_1_0_needs_no_host_and_other_versions_are_not_spoken() -> None:
    assert origin_form(b"GET", b"/", "1.0", []) == b"/"
    for version, status in (("1.1", 400), ("0.9", 505), ("2.0", 505)):
        with pytest.raises(RequestRefused) as refused:
            origin_form(b"GET", b"/", version, [])
        assert refused.value.status == status


def test_no_tunnel_is_opened() -> None:
    for target in (b"chat.example:8000", b"/", b"http://chat.example:8000/"):
        with pytest.raises(RequestRefused) as refused:
            origin_form(b"CONNECT", target, "1.1", [HOST])
        assert (refused.value.status, refused.value.allow) == (405, "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT")


def test_a_websocket_is_asked_for_by_its_name_alone() -> None:
    assert asks_for_websocket(b"GET", "1.1", [HOST, *WEBSOCKET])
    assert asks_for_websocket(b"GET", "1.1", [WEBSOCKET[0], (b"connection", b"close"), WEBSOCKET[1]])
    for method, version, fields in (
        (b"POST", "1.1", WEBSOCKET),
        (b"GET", "1.0", WEBSOCKET),
        (b"GET", "1.1", WEBSOCKET[:1]),
        (b"GET", "1.1", WEBSOCKET[1:]),
        (b"GET", "1.1", [WEBSOCKET[0], (b"upgrade", b"h2c")]),
        (b"GET", "1.1", [WEBSOCKET[0], (b"upgrade", b"websocket, h2c")]),
        (b"GET", "1.1", [*WEBSOCKET, WEBSOCKET[1]]),
        (b"GET", "1.1", [(b"proxy-connection", b"upgrade"), WEBSOCKET[1]]),
    ):
        assert not asks_for_websocket(method, version, fields)
