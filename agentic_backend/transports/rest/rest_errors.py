"""JSON responses, and the only table that renders errors as HTTP responses."""

import logging
import math
from collections.abc import AsyncIterator, Collection, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route
from starlette.types import ExceptionHandler

from agentic_backend.auth.user import User
from agentic_backend.errors import AgenticError, BadFrame, Internal, MethodNotAllowed, NotFound
from agentic_backend.protocol.events import ErrorInfo
from agentic_backend.protocol.parts import Value
from agentic_backend.tracing.origin import current_origin
from agentic_backend.transports.refusal_detail import detail_for
from agentic_backend.transports.rest.operation import ErrorBody, ErrorForm, Operation

log = logging.getLogger(__name__)


def json_response(body: Value, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return body_response(body.__pydantic_serializer__.to_json(body), status, headers)


def body_response(body: bytes, status: int, headers: dict[str, str] | None = None) -> Response:
    """The response with a body of JSON."""
    return Response(body, status, {"cache-control": "no-store", **(headers or {})}, media_type="application/json")


async def json_array_response(pages: AsyncIterator[Sequence[Value]], name: str | None = None) -> Response:
    """A JSON array, read and sent page by page; with `name`, as the only field of an object.

    An error of the first page is raised here, before anything is sent.
    """
    first = await anext(pages)
    before, after = (b"[", b"]") if name is None else (f'{{"{name}":['.encode(), b"]}")

    async def body() -> AsyncIterator[bytes]:
        yield before + _rendered(first)
        comma = b"," if first else b""
        async for page in pages:
            if page:
                yield comma + _rendered(page)
                comma = b","
        yield after

    return StreamingResponse(body(), headers={"cache-control": "no-store"}, media_type="application/json")


def _rendered(values: Sequence[Value]) -> bytes:
    return b",".join(value.__pydantic_serializer__.to_json(value) for value in values)


def error_response(
    error: AgenticError,
    request_id: str,
    status: int | None = None,
    user: User | None = None,
    secrets: Collection[str] = (),
    form: type[ErrorForm] = ErrorBody,
) -> Response:
    """`user` is who asked, if that is known: authors are told more, without `secrets`. `form` is the operation's."""
    headers = {"www-authenticate": "Bearer"} if error.http_status == 401 else {}
    if error.retry_after_s is not None:
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after_s)))
    body = form.of(ErrorInfo.of(error, request_id, detail_for(user, error, secrets)))
    return json_response(body, status or error.http_status, headers)


def refusal(
    error: AgenticError,
    path: str,
    user: User | None = None,
    secrets: Collection[str] = (),
    form: type[ErrorForm] = ErrorBody,
) -> Response:
    """Log a refused request and return the error response, both with the same request id."""
    return error_response(error, note_refusal(error, path, user), user=user, secrets=secrets, form=form)


def note_refusal(error: AgenticError, path: str, user: User | None) -> str:
    """Log a refused request; its id, for the client."""
    request_id = current_origin().request_id
    whose = {"user_id": user.id} if user is not None else {}
    log.info("request refused", extra={"request_id": request_id, **error.log_fields, "path": path, **whose})
    return request_id


async def _typed(request: Request, error: Exception) -> Response:
    assert isinstance(error, AgenticError)
    user, secrets = getattr(request.state, "user", None), getattr(request.app.state, "secrets", ())
    # The internal listener has no doors.
    if (kpi := getattr(request.app.state, "kpi", None)) is not None:
        kpi.refusals.refused("rest", error.code, None if user is None else user.id)
    return _of_operation(request, refusal(error, request.url.path, user, secrets, _form(request)))


async def _http(request: Request, error: Exception) -> Response:
    """Starlette's own refusals: an unknown path, a wrong method."""
    assert isinstance(error, HTTPException)
    refused = {404: NotFound(), 405: MethodNotAllowed()}.get(error.status_code) or BadFrame(error.detail)
    routes = _routes_at(request)
    operations = (getattr(route.endpoint, "operation", None) for route in routes)
    form = next((each.error_form for each in operations if each is not None), ErrorBody)
    response = error_response(refused, current_origin().request_id, error.status_code, form=form)
    response.headers.update(error.headers or {})
    # Starlette names the methods of the first route only.
    allowed = {method for route in routes for method in route.methods or ()}
    if isinstance(refused, MethodNotAllowed) and allowed:
        response.headers["allow"] = ", ".join(sorted(allowed))
    return response


def _routes_at(request: Request) -> list[Route]:
    """The routes of the path that fits the request first, whatever their methods."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    fitting = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return [route for route in fitting if route.path == fitting[0].path]


async def _unexpected(request: Request, error: Exception) -> Response:
    request_id = current_origin().request_id
    log.error("request failed", exc_info=error, extra={"request_id": request_id, "path": request.url.path})
    return _of_operation(request, error_response(Internal(), request_id, form=_form(request)))


def _form(request: Request) -> type[ErrorForm]:
    operation = _operation(request)
    return ErrorBody if operation is None else operation.error_form


def _of_operation(request: Request, response: Response) -> Response:
    """The response with the headers that every answer of its operation has."""
    if (operation := _operation(request)) is not None:
        response.headers.update(operation.deprecation_headers)
        if operation.challenge is not None and "www-authenticate" in response.headers:
            response.headers["www-authenticate"] = operation.challenge(request)
    return response


def _operation(request: Request) -> Operation | None:
    """The operation that the request has reached."""
    return getattr(request.state, "operation", None)


EXCEPTION_HANDLERS: dict[type[Exception], ExceptionHandler] = {
    AgenticError: _typed,
    HTTPException: _http,
    Exception: _unexpected,
}
