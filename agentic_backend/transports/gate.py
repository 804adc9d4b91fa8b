"""Gate: what every request passes before it reaches a transport.

Foreign pages are refused by their Origin, also where developer authentication asks for no token: else any page in the
same browser could talk to a server on loopback. Host names are checked, because a name can be rebound to loopback.
"""

from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: https:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SECURITY_HEADERS = {
    "content-security-policy": _CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


class Gate:
    """ASGI middleware. `origins` are `scheme://host[:port]`, `hosts` names without port."""

    def __init__(self, app: ASGIApp, *, origins: Collection[str], hosts: Collection[str]) -> None:
        self._app = app
        self._origins = frozenset(origin.lower() for origin in origins)
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._origins:
            await _refuse(scope, receive, send, 403, "This origin is not allowed.")
        elif _host_name(headers.get("host", "")) not in self._hosts:
            await _refuse(scope, receive, send, 400, "This host name is not served.")
        else:
            # A frame of a WebSocket has no headers, and passes here thousands of times.
            await self._app(scope, receive, _with_security_headers(send) if scope["type"] == "http" else send)


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _with_security_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, content: str) -> None:
    # A WebSocket is refused before it is accepted, by Starlette's denial response.
    response: Any = PlainTextResponse(content, status_code=status)
    await response(scope, receive, send)
