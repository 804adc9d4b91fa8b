"""RestCalls: authenticates each REST call, bounds the calls of a user, and drops clients that read too slowly."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, nullcontext
from copy import deepcopy
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentic_backend.auth.user import Authenticator, User
from agentic_backend.auth.user_tokens import TokenCache
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.errors import AgenticError
from agentic_backend.kpi import Kpi
from agentic_backend.loop.loop_load import served_timeout
from agentic_backend.protocol.parts import Value
from agentic_backend.sessions.bulkhead import Bulkhead
from agentic_backend.sessions.waiting.consent import give_consent
from agentic_backend.tracing.tracing import Tracing
from agentic_backend.transports.calls.admin.admin_gate import AdminGate, Call, is_for_admins
from agentic_backend.transports.credentials import tokens_of, user_of
from agentic_backend.transports.rest.operation import APPROVAL, Generated, Operation
from agentic_backend.transports.rest.rest_errors import body_response, json_response
from agentic_backend.transports.rest.rest_input import body_data, body_in
from agentic_backend.transports.rest.traced_endpoint import TracedEndpoint
from agentic_backend.transports.rest.upload import Upload, read_upload
from agentic_backend.transports.sse import EventStream
from agentic_backend.transports.whole_answer import WholeAnswer, drop_client

log = logging.getLogger(__name__)

# The longest time that a call waits for its user's other calls.
_WAIT_S = 5.0
# The size of a slice of a response; the next slice waits until the client has read this one.
_SLICE = 65_536
# The size of a body from which on it is read in a thread: tens of thousands of small objects take half a second.
_LARGE = 262_144


class OperationCall:
    """Reads the input of a request, calls the operation's handler, and renders what it returns."""

    def __init__(self, operation: Operation, body_bytes: int, kpi: Kpi, upload_bytes: int = 0) -> None:
        self._operation = operation
        self._body_bytes = body_bytes
        """The largest body, in bytes."""
        self._upload_bytes = upload_bytes
        """The largest file of a body, in bytes."""
        self._kpi = kpi

    async def __call__(self, request: Request, user: User | None) -> Response:
        """The answer. `user` is the caller; None if the operation is public."""
        operation, data = self._operation, b""
        if operation.body is not None:
            with self._counted():
                data = await body_data(request, self._body_bytes)
        with ExitStack() as uploaded:
            upload = None
            if operation.takes_upload:
                upload = await read_upload(request, operation.upload or "", self._upload_bytes)
                uploaded.enter_context(upload.file)
            answered = partial(self._answered, request, user, data, upload)
            if operation.border is None:
                return await answered()
            assert user is not None, "an application's operation is not public"
            return await operation.border(user, answered)

    async def _answered(self, request: Request, user: User | None, data: bytes, upload: Upload | None) -> Response:
        with self._counted():
            if len(data) > _LARGE:
                given = await asyncio.to_thread(self._input, request, user, data)
            else:
                given = self._input(request, user, data)
        if upload is not None:
            given["upload"] = upload
        if self._operation.is_generated and request.method == "HEAD":
            # Nobody would read what a handler yields.
            return Response(media_type="text/event-stream")
        made: Any = self._operation.handler(**given)
        if self._operation.is_generated:
            return Generated(made)
        answer = await made
        response = self._response(answer) if self._operation.border is None else self._declared(answer)
        response.headers.update(self._operation.deprecation_headers)
        return response

    def _response(self, answer: Value | Response | None) -> Response:
        """Raises TypeError if the handler has not answered what it declares."""
        if answer is None and self._operation.answer_type is None:
            return Response(status_code=204)
        if isinstance(answer, Value):
            return json_response(answer, self._operation.status)
        if not isinstance(answer, Response):
            raise TypeError(f"{self._operation.id}: the handler has not answered what it declares")
        return answer

    def _declared(self, answer: object) -> Response:
        """The response to an answer that others' code has made: only what is declared, read by its declaration."""
        declared = self._operation.answer_type
        if declared is None and answer is None:
            return Response(status_code=204)
        if declared is None or not isinstance(answer, declared):
            raise TypeError(f"{self._operation.id}: the handler has not answered what it declares")
        # A warning would quote the value in the log.
        body = declared.__pydantic_serializer__.to_json(answer, warnings="error")
        return body_response(bytes(body), self._operation.status)

    def _counted(self) -> AbstractContextManager[None]:
        """Counts refused input."""
        label = self._operation.refused_as
        return nullcontext() if label is None else self._kpi.calls.refusals(label)

    def _input(self, request: Request, user: User | None, data: bytes) -> dict[str, Any]:
        """The handler's arguments; `data` is the body. Raises BadFrame."""
        operation = self._operation
        given: dict[str, Any] = {name: request.path_params[name] for name in operation.path_parameters}
        if "user" in operation.types:
            # Others' code gets its own: the scope of a user may be shared by many.
            given["user"] = deepcopy(user) if operation.border is not None else user
        if "request" in operation.types:
            given["request"] = request
        if operation.query is not None:
            given["query"] = operation.query.of(request.query_params)
        if operation.body is not None:
            given["body"] = body_in(data, operation.body)
        return given


class RestCalls:
    def __init__(
        self,
        authenticator: Authenticator,
        tokens: TokenCache,
        limits: LimitsSettings,
        admins: AdminGate,
        kpi: Kpi,
        tracing: Tracing,
    ) -> None:
        self._authenticator = authenticator
        self._admins = admins
        self._kpi = kpi
        self._tracing = tracing
        self._body_bytes, self._upload_bytes = limits.frame_bytes, limits.attachment_bytes
        # In base64.
        self._encoded_bytes = (limits.attachment_bytes + 2) // 3 * 4
        self._tokens = tokens
        self._send_timeout_s = limits.send_timeout_s
        self._at_once = Bulkhead(
            per_user=limits.requests_per_user,
            in_all=None,
            wait_s=_WAIT_S,
            content="Too many of your requests are worked on; wait until some are answered.",
        )

    def routes(self, operations: Iterable[Operation]) -> list[Route]:
        """The routes of `operations`, authenticated unless they are public. Paths of admins are for admins only."""
        return [
            Route(each.path, TracedEndpoint(self._endpoint(each), each, self._tracing), methods=[each.method])
            for each in operations
        ]

    def _endpoint(self, operation: Operation) -> ASGIApp:
        body_bytes = self._body_bytes + (self._encoded_bytes if operation.has_files else 0)
        operation_call = OperationCall(operation, body_bytes, self._kpi, self._upload_bytes)
        if operation.public:
            return _PublicEndpoint(operation_call, operation, self._send_timeout_s)
        call: Call = operation_call
        if is_for_admins(operation.path):
            call = self._admins.guarded(call)
        return _Endpoint(
            self._authenticator, self._tokens, self._kpi, self._at_once, call, operation, self._send_timeout_s
        )


class _PublicEndpoint:
    """One route without authentication."""

    def __init__(self, call: OperationCall, operation: Operation, send_timeout_s: float) -> None:
        self._call = call
        self.operation = operation
        self._send_timeout_s = send_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        # For the handlers of errors.
        request.state.operation = self.operation
        await _answer(await self._call(request, None), self._send_timeout_s, scope, receive, send)


class _Endpoint:
    """One authenticated route. A call counts until its response is sent, which bounds unread responses too. Event
    streams, and answers that come later, count as connections instead."""

    def __init__(
        self,
        authenticator: Authenticator,
        tokens: TokenCache,
        kpi: Kpi,
        at_once: Bulkhead,
        call: Call,
        operation: Operation,
        send_timeout_s: float,
    ) -> None:
        self._authenticator = authenticator
        self._tokens = tokens
        self._kpi = kpi
        self._at_once = at_once
        self._call = call
        self.operation = operation
        self._send_timeout_s = send_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        # For the handlers of errors, as is the user.
        request.state.operation = self.operation
        # Always: a request that came behind another on its connection begins with the context of that one.
        give_consent(request.headers.get(APPROVAL.name) if APPROVAL in self.operation.headers else None)
        with self._kpi.connections.token_check("rest"):
            user = await user_of(request, self._authenticator)
        request.state.user = user
        # For what runs already for the user.
        self._tokens.of(user.id).offer(tokens_of(request, user))
        async with AsyncExitStack() as place:
            await place.enter_async_context(self._at_once.entered(user.id))
            response = await self._call(request, user)
            if isinstance(response, EventStream | WholeAnswer):
                await place.aclose()
            await _answer(response, self._send_timeout_s, scope, receive, send)


async def _answer(response: Response, timeout_s: float, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a response, and drop its client if that takes longer than `timeout_s` for a slice."""
    try:
        await response(scope, receive, _in_slices(send, timeout_s))
    except _TooSlow:
        log.info("client too slow", extra={"path": scope["path"]})
    except AgenticError as error:
        # Part of the response is already sent: the client must see that it is incomplete.
        log.warning("response incomplete", extra={"path": scope["path"], "code": error.code})
    else:
        return
    await drop_client(scope, receive)


class _TooSlow(Exception):
    """The client doesn't read."""


def _in_slices(send: Send, timeout_s: float) -> Send:
    """Send a body in slices. Raises _TooSlow if the client takes longer than `timeout_s` to make room for a slice.

    uvicorn delays a slice until the client has read enough of the earlier ones.
    """

    async def send_slice(message: Message) -> None:
        try:
            async with served_timeout(timeout_s):
                await send(message)
        except TimeoutError:
            raise _TooSlow from None

    async def send_slices(message: Message) -> None:
        body = message.get("body", b"")
        for start in range(0, len(body) - _SLICE, _SLICE):
            await send_slice({**message, "body": body[start : start + _SLICE], "more_body": True})
        if len(body) > _SLICE:
            message = {**message, "body": body[(len(body) - 1) // _SLICE * _SLICE :]}
        await send_slice(message)

    return send_slices
