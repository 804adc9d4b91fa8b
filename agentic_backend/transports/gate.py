"""Gate: what every request passes before it reaches a transport.

Foreign pages are refused by their Origin, also where developer authentication asks for no token: else any page in the
same browser could talk to a server on loopback. Host names are checked, because a name can be rebound to loopback.
"""

from collections.abc import Callable, Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentic_backend.errors import BadFrame, Forbidden
from agentic_backend.kpi import Kpi
from agentic_backend.transports.rest_errors import refusal

_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: https:; connect-src {connect_to}; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    # Else a link's host is looked up as soon as the link is shown, and its name may have been made of what was said.
    "x-dns-prefetch-control": "off",
}


class Gate:
    """ASGI middleware. `origins` are `scheme://host[:port]`, `hosts` names without port.

    `tokens_from` is the one foreign origin that the page may ask, to sign its user in. While the server `is_draining`
    each answer ends its connection: the next request opens another one, which leads elsewhere. With `ip_addresses` any
    address will do as well as a name, and none at all: only a name can be rebound, and every browser sends one.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        origins: Collection[str],
        hosts: Collection[str],
        tokens_from: str | None,
        is_draining: Callable[[], bool],
        kpi: Kpi,
        ip_addresses: bool = False,
    ) -> None:
        self._app = app
        self._is_draining = is_draining
        connect_to = f"'self' {tokens_from}" if tokens_from else "'self'"
        policy = _CONTENT_SECURITY_POLICY.format(connect_to=connect_to)
        self._headers = {"content-security-policy": policy, **_SECURITY_HEADERS}
        self._kpi = kpi
        self._origins = frozenset(origin.lower() for origin in origins)
        self._hosts = frozenset(host.lower() for host in hosts)
        self._ip_addresses = ip_addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        # A frame of a WebSocket has no headers, and passes here thousands of times.
        send = self._with_headers(send) if scope["type"] == "http" else send
        # A WebSocket is refused before it is accepted, by Starlette's denial response.
        if origin is not None and origin.lower() not in self._origins:
            self._note_refusal(scope, "origin")
            await refusal(Forbidden("This origin is not allowed."), scope["path"])(scope, receive, send)
        elif not self._serves(headers.get("host")):
            self._note_refusal(scope, "host")
            await refusal(BadFrame("This host name is not served."), scope["path"])(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _with_headers(self, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                if self._is_draining():
                    headers["connection"] = "close"
            await send(message)

        return send_with_headers

    def _serves(self, host: str | None) -> bool:
        if host is None:
            # HTTP/1.0, as some health checks of proxies speak it.
            return self._ip_addresses
        name = _host_name(host)
        return name in self._hosts or (self._ip_addresses and _is_ip_address(name))

    def _note_refusal(self, scope: Scope, reason: str) -> None:
        if scope["type"] == "websocket":
            self._kpi.socket_refused(reason)


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_ip_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
