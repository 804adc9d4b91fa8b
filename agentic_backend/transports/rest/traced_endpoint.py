"""TracedEndpoint: the span of each call of one REST operation, by OpenTelemetry's HTTP conventions.

It is named by the route's template, so that there are as many names as operations. A refusal is the client's error and
leaves the span's status alone; its code is an attribute.
"""

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentic_backend.disclosure.redaction import redact
from agentic_backend.errors import AgenticError
from agentic_backend.tracing.spans import OpenSpan, error_type
from agentic_backend.tracing.tracing import Tracing
from agentic_backend.transports.rest.operation import Operation

_STATUS, _CODE = "http.response.status_code", "agentic.error.code"
_SERVER_ERROR = 500


class TracedEndpoint:
    def __init__(self, endpoint: ASGIApp, operation: Operation, tracing: Tracing) -> None:
        self._endpoint = endpoint
        self.operation = operation
        self._tracing = tracing
        self._name = f"{operation.method} {operation.path}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._tracing.sends:
            await self._endpoint(scope, receive, send)
            return
        attributes = {
            "http.request.method": scope["method"],
            "http.route": self.operation.path,
            "network.protocol.version": scope["http_version"],
            "url.scheme": scope["scheme"],
            # The path of a shared conversation is its key.
            "url.path": redact(scope["path"]),
        }
        with self._tracing.call(self._name, attributes, failure) as span:
            if span is None:
                await self._endpoint(scope, receive, send)
                return
            try:
                await self._endpoint(scope, receive, _noting(send, span))
            except AgenticError as error:
                span.note({_STATUS: error.http_status, _CODE: error.code})
                raise


def _noting(send: Send, span: OpenSpan) -> Callable[[Message], Awaitable[None]]:
    def note(message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            status = message["status"]
            span.note({_STATUS: status})
            if status >= _SERVER_ERROR:
                span.fail(str(status))
        return send(message)

    return note


def failure(error: BaseException) -> str | None:
    """The `error.type` of a call that ended so; None if it was refused, which is no failure of the server."""
    is_clients = isinstance(error, AgenticError) and error.http_status < _SERVER_ERROR
    return None if is_clients else error_type(error)
