"""Requests that ask for a WebSocket where there is none, and those that don't ask for one where there is."""

from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from agentic_backend.errors import NotFound
from agentic_backend.transports.rest.rest_errors import refusal

_NEEDED = {"upgrade": "websocket", "connection": "upgrade"}


class UpgradeRequired:
    """ASGI application at the path of a WebSocket, for all requests but its handshakes (RFC 9110 §15.5.22)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise HTTPException(426, "This path is that of a WebSocket, and needs an upgrade to it.", _NEEDED)


async def no_such_path(scope: Scope, receive: Receive, send: Send) -> None:
    """ASGI application at all other paths. Starlette's own answers a handshake with 403, as if one had to sign in."""
    if scope["type"] == "websocket":
        await refusal(NotFound(), scope["path"])(scope, receive, send)
    else:
        raise HTTPException(404)
