"""Odd requests, by the kinds that collections of request smuggling know, each with another request hidden in it.

Whoever reads an odd request as HTTP/1.1 says refuses it, or reads what is hidden as a part of it: of its body, its
trailers or a field. Whoever reads it otherwise answers what is hidden, or makes it one with the next request.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

HOST = "Host: localhost"
SMUGGLED = "smuggled"
"""The title of the session that a hidden request would open."""
_OPENS = b'{"title": "%b"}' % SMUGGLED.encode()
_OPENING = (
    b"POST /agentic/v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    % len(_OPENS)
)
HIDDEN = {
    "whole": _OPENING + b"Authorization: Bearer dev:mallory\r\n\r\n" + _OPENS,
    # What comes next becomes the value of its last field, and gives it the token of who has sent it.
    "open": _OPENING + b"X-Swallowed: ",
}


@dataclass(frozen=True)
class Odd:
    name: str
    sent: bytes
    method: str = "POST"


def odd_requests(*, every: bool = False) -> Iterator[Odd]:
    """Some 300; with `every` also each way to offer an upgrade with each other oddity."""
    for hidden, what in HIDDEN.items():
        for odd in (*_bodies(what), *_upgrades(what), *_heads(what), *_chunks(what), *_targets(what)):
            yield Odd(f"{odd.name}, {hidden}", odd.sent, odd.method)
        if every:
            for odd, fields in product((*_bodies(what), *_chunks(what)), _UPGRADES):
                line, _, rest = odd.sent.partition(b"\r\n")
                upgrading = "".join(f"{field}\r\n" for field in fields).encode()
                yield Odd(f"{odd.name}, {fields}, {hidden}", line + b"\r\n" + upgrading + rest, odd.method)


def _request(target: str, *fields: str, method: str = "POST", version: str = "HTTP/1.1", host: bool = True) -> bytes:
    named = [HOST] if host else []
    return "\r\n".join([f"{method} {target} {version}", *named, *fields, "", ""]).encode("latin-1")


def _length(body: bytes) -> str:
    return f"Content-Length: {len(body)}"


def _chunked(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


CHUNKED = "Transfer-Encoding: chunked"
_JSON = "Content-Type: application/json"
_TARGETS = [
    # Nobody reads its body.
    ("POST", "/nothing", []),
    ("POST", "/agentic/v1/agents", []),
    ("POST", "/agentic/v1/chatbot/query/ws", []),
    ("POST", "/agentic/v1/sessions", ["Authorization: Bearer nonsense"]),
    ("POST", "/agentic/v1/sessions", ["Origin: https://evil.example"]),
    # It can't be read.
    ("POST", "/agentic/v1/sessions", [_JSON]),
    ("POST", "/agentic/v1/attachments", ["Content-Type: multipart/form-data; boundary=x"]),
    # Its body means nothing.
    ("GET", "/agentic/v1/info", []),
    ("HEAD", "/agentic/v1/info", []),
    ("OPTIONS", "/agentic/v1/info", []),
    ("DELETE", "/agentic/v1/sessions/none", []),
    ("PUT", "/static/nothing.js", []),
]


def _bodies(hidden: bytes) -> Iterator[Odd]:
    for method, target, fields in _TARGETS:
        name = f"{method} {target} {fields}"
        yield Odd(f"{name}, length", _request(target, *fields, _length(hidden), method=method) + hidden, method)
        yield Odd(f"{name}, chunks", _request(target, *fields, CHUNKED, method=method) + _chunked(hidden), method)
    expecting = _request("/agentic/v1/sessions", "Authorization: Basic x", "Expect: 100-continue", _length(hidden))
    yield Odd("expects to be told to go on, and does not wait", expecting + hidden)


_UPGRADES = [
    ["Upgrade: x", "Connection: Upgrade"],
    ["Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"],
    ["Upgrade: websocket", "Connection: Upgrade"],
    ["Upgrade: WebSocket, h2c", "Connection: keep-alive, upgrade"],
    ["Upgrade: x", "Upgrade: websocket", "Connection: Upgrade"],
    ["Upgrade: x", "Connection: close", "Connection: upgrade, keep-alive"],
    ["Upgrade: TLS/1.0", "Proxy-Connection: upgrade"],
    ["Connection: upgrade"],
    ["Upgrade: x"],
    ["Upgrade:", "Connection: upgrade"],
]


def _upgrades(hidden: bytes) -> Iterator[Odd]:
    for fields, (method, target) in product(
        _UPGRADES, (("POST", "/nothing"), ("PUT", "/nothing"), ("GET", "/nothing"))
    ):
        for framing, body in ((_length(hidden), hidden), (CHUNKED, _chunked(hidden))):
            name = f"{method} {fields} {framing.split(':')[0]}"
            if method == "GET" and "websocket" in fields[0]:
                continue
            yield Odd(name, _request(target, *fields, framing, method=method) + body, method)
    yield Odd("a tunnel", _request("localhost:80", method="CONNECT") + hidden, "CONNECT")
    yield Odd("a tunnel with a body", _request("localhost:80", _length(hidden), method="CONNECT") + hidden, "CONNECT")
    yield Odd("an early HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden, "PRI")


# Lengths and encodings that are none, or more than one.
_FRAMINGS = [
    [CHUNKED, "Content-Length: {length}"],
    ["Content-Length: {length}", CHUNKED],
    ["Content-Length: 0", CHUNKED],
    [CHUNKED, "Content-Length: 0"],
    ["Content-Length: 0", "Content-Length: {length}"],
    ["Content-Length: {length}", "Content-Length: 0"],
    ["Content-Length: {length}", "Content-Length: {length}"],
    ["Content-Length: {length}, {length}"],
    ["Content-Length: 0, {length}"],
    ["Content-Length: +{length}"],
    ["Content-Length: -1"],
    ["Content-Length: 0x10"],
    ["Content-Length: {length}.0"],
    ["Content-Length: {length}e0"],
    ["Content-Length: 1_0"],
    ["Content-Length: 99999999999999999999999"],
    ["Content-Length:"],
    ["Content-Length: {length}\x0b"],
    ["Content-Length : {length}"],
    ["Content-Length\t: {length}"],
    [" Content-Length: {length}"],
    ["Content-Length: 0\r\n {length}"],
    ["X: y\r\n Content-Length: {length}"],
    ["X: y\rContent-Length: {length}"],
    ["X: y\nContent-Length: {length}"],
    ["Content-Length: {length}\r"],
    ["Content-Length: {length}\x00"],
    ["Transfer-Encoding : chunked"],
    ["Transfer-Encoding\x0b: chunked"],
    [" Transfer-Encoding: chunked"],
    ["Transfer-Encoding:\r\n chunked"],
    ["Transfer-Encoding: xchunked"],
    ["Transfer-Encoding: chunkedx"],
    ["Transfer-Encoding: chunked, identity"],
    ["Transfer-Encoding: identity, chunked"],
    ["Transfer-Encoding: gzip, chunked"],
    ["Transfer-Encoding: chunked, chunked"],
    ["Transfer-Encoding: chunked;q=0.5"],
    ['Transfer-Encoding: "chunked"'],
    ["Transfer-Encoding: 'chunked'"],
    ["Transfer-Encoding: ,chunked"],
    ["Transfer-Encoding: chunked,"],
    ["Transfer-Encoding: \x0bchunked"],
    ["Transfer-Encoding: chunked\x0b"],
    ["Transfer-Encoding: chun\x00ked"],
    ["Transfer-Encoding: cow", "Transfer-Encoding: chunked"],
    [CHUNKED, "Transfer-Encoding: cow"],
    [CHUNKED, "Transfer-Encoding: identity"],
    ["Transfer-Encoding: identity", "Content-Length: {length}"],
    ["Transfer-Encoding:", "Content-Length: {length}"],
    ["X: y\rTransfer-Encoding: chunked"],
    ["X: y\nTransfer-Encoding: chunked"],
]


def _heads(hidden: bytes) -> Iterator[Odd]:
    for fields in _FRAMINGS:
        told = [field.format(length=len(hidden)) for field in fields]
        body = _chunked(hidden) if "chunked" in told[0] else b"0\r\n\r\n" + hidden
        yield Odd(f"{fields}", _request("/nothing", *told) + body)
    yield Odd("chunks in HTTP/1.0", _request("/nothing", CHUNKED, version="HTTP/1.0") + b"0\r\n\r\n" + hidden)
    yield Odd("HTTP/1.0 goes on", _request("/nothing", "Connection: keep-alive", version="HTTP/1.0") + hidden)
    yield Odd("the end, and more", _request("/nothing", "Connection: close") + hidden)


def _chunks(hidden: bytes) -> Iterator[Odd]:
    size, head = b"%x" % len(hidden), _request("/nothing", CHUNKED)
    for name, body in [
        ("a signed size", b"+" + size + b"\r\n" + hidden + b"\r\n0\r\n\r\n"),
        ("a negative size", b"-1\r\n" + hidden + b"\r\n0\r\n\r\n"),
        ("a marked size", b"0x" + size + b"\r\n" + hidden + b"\r\n0\r\n\r\n"),
        ("a size with a line between", size[:1] + b"_" + size[1:] + b"\r\n" + hidden + b"\r\n0\r\n\r\n"),
        ("a size with a space before", b" " + size + b"\r\n" + hidden + b"\r\n0\r\n\r\n"),
        ("a size with a space behind", size + b" \r\n" + hidden + b"\r\n0\r\n\r\n"),
        ("a size with zeros", b"0" * 30 + size + b"\r\n" + hidden + b"\r\n0\r\n\r\n"),
        ("no size", b"\r\n" + hidden + b"\r\n0\r\n\r\n"),
        ("a size beyond all", b"f" * 17 + b"\r\n" + hidden + b"\r\n0\r\n\r\n"),
        ("a size that wraps", b"1" + b"0" * 16 + b"\r\n" + hidden),
        ("a chunk that is longer", b"1\r\n" + hidden + b"\r\n0\r\n\r\n"),
        ("a chunk without an end", size + b"\r\n" + hidden + b"0\r\n\r\n"),
        ("lines without a carriage return", size + b"\n" + hidden + b"\n0\n\n"),
        ("a size with a carriage return only", size + b"\r" + hidden + b"\r\n0\r\n\r\n"),
        ("an end without a carriage return", size + b"\r\n" + hidden + b"\n0\r\n\r\n"),
        ("an extension", size + b";a=b\r\n" + hidden + b"\r\n0\r\n\r\n"),
        ("an extension with a quoted end", size + b';a="\r\n' + hidden + b"\r\n0\r\n\r\n"),
        ("an extension with a line feed", b"2;\n" + size + b"\r\n" + hidden + b"\r\n0\r\n\r\n"),
        ("an extension that hides", b"0;\n" + hidden + b"\r\n\r\n"),
        ("a trailer", size + b"\r\n" + hidden + b"\r\n0\r\nAuthorization: Bearer dev:mallory\r\n\r\n"),
        ("a trailer with a length", size + b"\r\n" + hidden + b"\r\n0\r\nContent-Length: 5\r\n\r\n"),
        ("a trailer with an encoding", size + b"\r\n" + hidden + b"\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("a trailer with a host", size + b"\r\n" + hidden + b"\r\n0\r\nHost: evil.example\r\n\r\n"),
        ("a trailer that is folded", size + b"\r\n" + hidden + b"\r\n0\r\nX: y\r\n z\r\n\r\n"),
        ("a trailer that is none", size + b"\r\n" + hidden + b"\r\n0\r\nX\r\n\r\n"),
        ("a last chunk with more", b"0\r\nX" + hidden + b"\r\n\r\n"),
        ("a last chunk without an end", b"0\r\n" + hidden + b"\r\n\r\n"),
    ]:
        yield Odd(f"chunks: {name}", head + body)


def _targets(hidden: bytes) -> Iterator[Odd]:
    framing = _length(hidden)
    for hosts in (
        ["Host: localhost", "Host: evil.example"],
        ["Host: evil.example", "Host: localhost"],
        ["Host: localhost/x"],
        ["Host: x@localhost"],
        ["Host: localhost#x"],
        ["Host: localhost, evil.example"],
        ["Host: localhost evil.example"],
        ["Host : localhost"],
        ["Host:\r\n localhost"],
        ["Host: localhost:80:80"],
        [],
    ):
        yield Odd(f"{hosts}", _request("/nothing", *hosts, framing, host=False) + hidden)
    for target in (
        *["http://evil.example/nothing", "http://x@localhost/nothing", "http://localhost/nothing", "https:/nothing"],
        *["*", "localhost:80", "nothing", "/nothing#x", "//evil.example/nothing", "/nothing x", "\t/nothing", "/\x7f"],
        *["/%00", "/../nothing", "/nothing?x=\r", "/nothing?\x01"],
    ):
        yield Odd(f"to {target!r}", _request(target, framing) + hidden)
    for version in (
        "HTTP/1.2",
        "HTTP/2.0",
        "HTTP/0.9",
        "HTTP/1.1 ",
        "HTTP/1,1",
        "http/1.1",
        "HTTP/1.10",
        "HTTP/ 1.1",
        "X/1.1",
    ):
        yield Odd(f"in {version!r}", _request("/nothing", framing, version=version) + hidden)
    for method in ("post", "P OST", "POST\x00", "", " POST", "\r\nPOST", "\nPOST", "G\r\nPOST"):
        yield Odd(f"by {method!r}", _request("/nothing", framing, method=method) + hidden)
    for field in (
        "X",
        ": y",
        "X y",
        "X\x00: y",
        "X: \x00",
        "\x00: y",
        "X:\x7f",
        "X\xe4: y",
        "(X): y",
        "X: y\r\n\t",
        "X@: y",
    ):
        yield Odd(f"with {field!r}", _request("/nothing", field, framing) + hidden)
    for names in (
        "Content-Length",
        "Authorization, Host",
        "close, Content-Length",
        "Transfer-Encoding",
        "keep-alive, Cookie",
    ):
        yield Odd(f"a connection of {names}", _request("/nothing", f"Connection: {names}", framing) + hidden)
    tokens = ["Authorization: Bearer dev:mallory", "Authorization: Bearer dev:bob"]
    yield Odd("two tokens", _request("/nothing", *tokens, framing) + hidden)
    yield Odd("two origins", _request("/nothing", *["Origin: http://localhost"] * 2, framing) + hidden)
