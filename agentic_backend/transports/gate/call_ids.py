"""CallIds: the ASGI middleware around all others, which gives each call its ids and answers with them.

Requests, refusals and the upgrade to a WebSocket are answered alike. What a client sends malformed is never echoed.
"""

from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentic_backend.tracing.origin import REQUEST_ID, TRACEPARENT, Origin

_HEADS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})


class CallIds:
    def __init__(self, app: ASGIApp, sample_ratio: float) -> None:
        """`sample_ratio` is the share of the traces that are sent."""
        self._app = app
        self._sample_ratio = sample_ratio

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        with Origin.of(Headers(scope=scope), self._sample_ratio).entered() as origin:
            await self._app(scope, receive, _answering(send, origin))


def _answering(send: Send, origin: Origin) -> Callable[[Message], Awaitable[None]]:
    def answer(message: Message) -> Awaitable[None]:
        # No coroutine of its own: the messages of a WebSocket are frequent.
        if message["type"] in _HEADS:
            headers = MutableHeaders(raw=list(message.get("headers", ())))
            headers[REQUEST_ID], headers[TRACEPARENT] = origin.request_id, origin.traceparent
            message = {**message, "headers": headers.raw}
        return send(message)

    return answer
