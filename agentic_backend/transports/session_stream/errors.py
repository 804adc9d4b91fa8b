"""Errors in the form of the session stream: each has one of seven categories, by its HTTP status."""

from typing import Literal, Self

from agentic_backend.errors import class_of
from agentic_backend.protocol.events import Code, Content, ErrorInfo, RequestId, Retryable
from agentic_backend.protocol.parts import absent
from agentic_backend.transports.camel_case import CamelValue
from agentic_backend.transports.rest.operation import ErrorForm

Category = Literal["validation", "authorization", "not_found", "conflict", "ai_gateway", "timeout", "internal"]

CATEGORIES: dict[int, Category] = {
    400: "validation",
    401: "authorization",
    403: "authorization",
    404: "not_found",
    405: "not_found",
    409: "conflict",
    413: "validation",
    422: "validation",
    429: "conflict",
    500: "internal",
    502: "ai_gateway",
    503: "internal",
    504: "timeout",
}
"""The category of an error by its HTTP status."""


class SessionStreamError(CamelValue, ErrorForm):
    """A refused request."""

    error: Content
    category: Category
    """The kind of error; several codes have the same."""
    code: Code
    retryable: Retryable
    request_id: RequestId
    retry_after_s: float | None = absent()
    """How long to wait before, in seconds."""

    @classmethod
    def of(cls, info: ErrorInfo) -> Self:
        return cls(
            error=info.content,
            category=CATEGORIES[class_of(info.code).http_status],
            code=info.code,
            retryable=info.retryable,
            request_id=info.request_id,
            retry_after_s=info.retry_after_s,
        )
