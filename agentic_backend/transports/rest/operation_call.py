"""OperationCall: reads the input of a request, calls the operation's handler, and renders what it returns."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from agentic_backend.auth.user import User
from agentic_backend.kpi import Kpi
from agentic_backend.protocol.parts import Value
from agentic_backend.transports.rest.operation import Operation
from agentic_backend.transports.rest.rest_errors import json_response
from agentic_backend.transports.rest.rest_input import body_of


class OperationCall:
    def __init__(self, operation: Operation, body_bytes: int, kpi: Kpi) -> None:
        self._operation = operation
        self._body_bytes = body_bytes
        """The largest body, in bytes."""
        self._kpi = kpi

    async def __call__(self, request: Request, user: User | None) -> Response:
        """The answer. `user` is the caller; None if the operation is public."""
        with self._counted():
            given = await self._input(request, user)
        response = self._response(await self._operation.handler(**given))
        response.headers.update(self._operation.deprecation_headers)
        return response

    def _response(self, answer: Value | Response | None) -> Response:
        if isinstance(answer, Value):
            return json_response(answer, self._operation.status)
        return answer if isinstance(answer, Response) else Response(status_code=204)

    def _counted(self) -> AbstractContextManager[None]:
        """Counts refused input."""
        label = self._operation.refused_as
        return nullcontext() if label is None else self._kpi.calls.refusals(label)

    async def _input(self, request: Request, user: User | None) -> dict[str, Any]:
        """The handler's arguments. Raises BadFrame or MessageTooLarge."""
        operation = self._operation
        given: dict[str, Any] = {name: request.path_params[name] for name in operation.path_parameters}
        if "user" in operation.types:
            given["user"] = user
        if "request" in operation.types:
            given["request"] = request
        if operation.query is not None:
            given["query"] = operation.query.of(request.query_params)
        if operation.body is not None:
            given["body"] = await body_of(request, operation.body, self._body_bytes)
        return given
