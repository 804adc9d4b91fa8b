"""AnswerCounter: counts the answers to HTTP requests by route, method and status; refusals of the gate too."""

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentic_backend.kpi import Kpi
from agentic_backend.transports.rest.operation import Operation


class AnswerCounter:
    def __init__(self, app: ASGIApp, kpi: Kpi) -> None:
        self._app = app
        self._kpi = kpi

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                took_s = time.monotonic() - began
                self._kpi.calls.answered(_route_of(scope), scope["method"], message["status"], took_s)
            await send(message)

        await self._app(scope, receive, counted)


def _route_of(scope: Scope) -> str:
    """The template of the operation's path; `page` for other paths of the server, `unknown` for none of them."""
    # Starlette's router puts it there.
    endpoint = scope.get("endpoint")
    operation: Operation | None = getattr(endpoint, "operation", None)
    if operation is not None:
        return operation.path
    return "unknown" if endpoint is None else "page"
