"""CallsBetween: calls of one application by another, as the same user, through all that a REST call goes through."""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlencode

from pydantic_core import from_json, to_json
from starlette.requests import Request
from starlette.types import Message

from agentic_backend.auth.user import User
from agentic_backend.errors import ApplicationUnavailable, NotFound
from agentic_backend.hosting.hosted_application import HostedApplication
from agentic_backend.kpi import Kpi
from agentic_backend.transports.rest.rest_calls import OperationCall

_PART = re.compile(r"[^/\ud800-\udfff]+")
# Applications that call each other in a circle.
_DEEPEST = 8

_depth: ContextVar[int] = ContextVar("depth_of_calls_between_applications", default=0)


class CallsBetween:
    def __init__(self, hosted: Mapping[str, HostedApplication], body_bytes: int, kpi: Kpi) -> None:
        """`body_bytes` is the largest body of any call."""
        self._hosted = hosted
        self._body_bytes = body_bytes
        self._kpi = kpi

    async def call(
        self,
        application: str,
        operation: str,
        user: User,
        parts: Mapping[str, str],
        query: Mapping[str, str | None],
        body: Mapping[str, Any] | None,
    ) -> Any:
        """See Application.call."""
        hosted = self._hosted.get(application)
        if hosted is None:
            raise ApplicationUnavailable(f"There is no application '{application}'.", retryable=False)
        if not hosted.is_serving:
            raise ApplicationUnavailable(f"The application '{hosted.loaded.title}' is not available.")
        if (found := hosted.operation(operation)) is None:
            raise NotFound(f"The application '{application}' has no operation '{operation}'.")
        if found.is_generated or found.takes_upload:
            raise TypeError(f"the operation {operation!r} streams events or takes a file, which only clients can do")
        if {*parts} != {*found.path_parameters}:
            raise TypeError(f"the operation {operation!r} needs the parts {', '.join(found.path_parameters) or 'none'}")
        given = {name: value for name, value in query.items() if value is not None}
        if not all(type(each) is str for each in (*parts.values(), *given.values())):
            raise TypeError("parts of a path and parameters of a query string are texts")
        if not all(_PART.fullmatch(each) for each in parts.values()):
            # No path has such a part.
            raise NotFound(f"The application '{application}' has no such path.")
        depth = _depth.get()
        if depth >= _DEEPEST:
            raise ApplicationUnavailable("Applications call each other in a circle.", retryable=False)
        entered = _depth.set(depth + 1)
        try:
            request = _request(found.method, found.path, parts, given, b"" if body is None else to_json(body))
            response = await OperationCall(found, self._body_bytes, self._kpi)(request, user)
        finally:
            _depth.reset(entered)
        return from_json(bytes(response.body)) if response.body else None


def _request(method: str, path: str, parts: Mapping[str, str], query: Mapping[str, str], body: bytes) -> Request:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "path_params": dict(parts),
        "query_string": urlencode(query).encode(),
        "headers": headers,
    }
    return Request(scope, receive)
