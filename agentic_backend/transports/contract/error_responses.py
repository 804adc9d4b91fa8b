"""The error responses of an OpenAPI document: one for each status of an operation, shared by all that have the same."""

from itertools import groupby
from typing import Any

from agentic_backend.errors import AgenticError
from agentic_backend.protocol.events import ErrorInfo
from agentic_backend.transports.rest.operation import ErrorBody, ErrorForm, Operation

_REQUEST_ID = "9b2c4d6e8f0a4b1c8d3e5f7a9b0c2d4e"
_AUTHENTICATE = {"www-authenticate": {"description": "`Bearer`.", "schema": {"type": "string"}}}
_RETRY = {"retry-after": {"description": "Seconds to wait, where it is known.", "schema": {"type": "integer"}}}
_HEADERS: dict[int, dict[str, Any]] = {401: _AUTHENTICATE, 429: _RETRY, 503: _RETRY}


class ErrorResponses:
    def __init__(self, schemas: dict[str, Any]) -> None:
        """`schemas` are those of the forms of errors, by the form's name."""
        self._schemas = schemas
        self.components: dict[str, Any] = {}

    def of(self, operation: Operation) -> dict[str, Any]:
        """References to the error responses of an operation, by status."""
        errors = sorted(operation.possible_errors, key=lambda error: (error.http_status, error.code))
        grouped = groupby(errors, key=lambda error: error.http_status)
        return {str(status): self._reference(status, list(group), operation.error_form) for status, group in grouped}

    def _reference(self, status: int, errors: list[type[AgenticError]], form: type[ErrorForm]) -> dict[str, str]:
        codes = [error.code for error in errors]
        name = ".".join([str(status), *codes] if form is ErrorBody else [form.__name__, str(status), *codes])
        self.components.setdefault(name, self._response(status, errors, form))
        return {"$ref": f"#/components/responses/{name}"}

    def _response(self, status: int, errors: list[type[AgenticError]], form: type[ErrorForm]) -> dict[str, Any]:
        example = form.of(ErrorInfo.of(errors[0](), _REQUEST_ID)).model_dump(mode="json")
        response: dict[str, Any] = {
            "description": "\n".join(f"- `{error.code}`: {error.default}" for error in errors),
            "content": {"application/json": {"schema": self._schemas[form.__name__], "example": example}},
        }
        if status in _HEADERS:
            response["headers"] = _HEADERS[status]
        return response
