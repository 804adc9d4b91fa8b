"""Gate: the ASGI middleware in front of every transport.

It refuses foreign pages by their Origin, because with developer authentication any page in the same browser could
otherwise use a server on loopback. It checks the Host, because a DNS name can be rebound to loopback.
"""

from collections.abc import Callable, Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentic_backend.errors import BadFrame, Forbidden
from agentic_backend.kpi import Kpi
from agentic_backend.transports.rest.rest_errors import refusal

_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob: https:; manifest-src 'self'; "
    "connect-src {connect_to}; frame-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    # Otherwise the browser resolves a link's host when it shows the link, and the host name may leak message text.
    "x-dns-prefetch-control": "off",
}


class Gate:
    """ASGI middleware. `origins` are `scheme://host[:port]`, `hosts` are names without a port.

    `tokens_from` is the only foreign origin that the page may call, to sign in. While the server `is_draining`, each
    response closes its connection, so that the next request goes to another server. `ip_addresses` also allows any IP
    address as the Host, or none: only a name can be rebound, and every browser sends a Host.
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
        # WebSocket messages have no headers and are frequent, so their `send` is not wrapped.
        send = self._with_headers(send) if scope["type"] == "http" else send
        # Refuse a WebSocket before it is accepted, with Starlette's denial response.
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
            # HTTP/1.0, which some proxies use for health checks.
            return self._ip_addresses
        name = _host_name(host)
        return name in self._hosts or (self._ip_addresses and _is_ip_address(name))

    def _note_refusal(self, scope: Scope, reason: str) -> None:
        self._kpi.refusals.refused("socket" if scope["type"] == "websocket" else "rest", reason)


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
