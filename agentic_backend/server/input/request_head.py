"""What the head of an HTTP/1.1 request must be, beyond its grammar, which the parser checks.

Whatever two readers of one head may understand differently is refused: where its body ends, for whom it is, and who
sends it. Else a proxy and this server could disagree on where the next request begins, or on whose it is (request
smuggling). Pure functions on what the parser has read: field names are in lower case, values have no spaces around.
"""

import re
from collections.abc import Sequence

from agentic_backend.errors import AgenticError, BadFrame, MethodNotAllowed

Fields = Sequence[tuple[bytes, bytes]]

_VERSIONS = ("1.0", "1.1")
# The fields of which the server reads one value: of two, a proxy might have checked the other.
_SINGLE = frozenset(
    {
        b"authorization",
        b"content-length",
        b"content-type",
        b"expect",
        b"host",
        b"last-event-id",
        b"origin",
        b"sec-websocket-key",
        b"sec-websocket-version",
        b"transfer-encoding",
    }
)
# A name or an address, and a port (RFC 9110 §7.2); empty where the target has no authority.
_HOST = re.compile(rb"(?:(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?)?")
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)(/?[^#]*)", re.IGNORECASE)
_METHODS = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"


class RequestRefused(Exception):
    """`status` is the answer's. After it the connection is closed, as nobody knows where the next request begins."""

    def __init__(self, error: AgenticError, status: int | None = None, allow: str | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.status = status or error.http_status
        self.allow = allow
        """The methods there are, where the request's is none of them."""


def origin_form(method: bytes, target: bytes, version: str, fields: Fields) -> bytes:
    """The request's path and query, which `target` names in one of its forms (RFC 9112 §3.2).

    Raises RequestRefused if the request is ambiguous, or is not for this server.
    """
    if version not in _VERSIONS:
        raise RequestRefused(BadFrame("The server speaks HTTP/1.1."), 505)
    if method == b"CONNECT":
        raise RequestRefused(MethodNotAllowed("The server opens no tunnels."), allow=_METHODS)
    names = [name for name, _ in fields if name in _SINGLE]
    for name in names:
        if names.count(name) > 1:
            raise _refused(f"{name.decode()}: may be given once.")
    values = dict(fields)
    _check_framing(version, values)
    host = values.get(b"host")
    if host is None and version == "1.1":
        raise _refused("host: is missing.")
    if host is not None and _HOST.fullmatch(host) is None:
        raise _refused("host: is not a name with an optional port.")
    return _path_of(method, target, host)


def asks_for_websocket(method: bytes, version: str, fields: Fields) -> bool:
    """Whether the request asks to go on as a WebSocket (RFC 6455 §4.1), and for nothing else."""
    connection = b",".join(value for name, value in fields if name == b"connection")
    options = {option.strip() for option in connection.lower().split(b",")}
    protocols = [value.lower() for name, value in fields if name == b"upgrade"]
    return method == b"GET" and version == "1.1" and b"upgrade" in options and protocols == [b"websocket"]


def has_body(fields: Fields) -> bool:
    """Whether a body follows, also an empty one."""
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in fields)


def _check_framing(version: str, values: dict[bytes, bytes]) -> None:
    """A body ends by its length or by its last chunk, and never by either (RFC 9112 §6.1)."""
    encoding = values.get(b"transfer-encoding")
    if encoding is None:
        return
    if version == "1.0":
        raise _refused("transfer-encoding: is not part of HTTP/1.0.")
    if encoding.lower() != b"chunked":
        raise _refused("transfer-encoding: may only be chunked.")
    if b"content-length" in values:
        raise _refused("content-length: can't stand beside transfer-encoding.")


def _path_of(method: bytes, target: bytes, host: bytes | None) -> bytes:
    if b"#" in target:
        raise _refused("The target has a fragment.")
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return target
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise _refused("The target is neither a path nor an address of the web.")
    authority, path = absolute.groups()
    if host is None or authority.lower() != host.lower():
        raise _refused("host: is another than the target's.")
    return path if path.startswith(b"/") else b"/" + path


def _refused(content: str) -> RequestRefused:
    return RequestRefused(BadFrame(content))
