"""Errors in OpenAI's form: a type by the HTTP status, the parameter that is wrong, and this server's code."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from pydantic import Field
from starlette.responses import Response

from agentic_backend.errors import BadFrame, MessageTooLarge, class_of
from agentic_backend.protocol.events import Code, Content, ErrorInfo, RequestId, Retryable
from agentic_backend.protocol.parts import Value
from agentic_backend.transports.rest.operation import ErrorForm
from agentic_backend.transports.rest.rest_errors import json_response

_TYPES = {401: "authentication_error", 403: "permission_error", 409: "conflict_error", 429: "rate_limit_error"}
_PARAM = re.compile(r"([a-z_]\w*(?:\.\w+)*):")


class OpenAIErrorInfo(Value):
    """What went wrong."""

    message: Content
    type: str = Field(examples=["invalid_request_error"])
    """The kind of error, by its HTTP status."""
    param: str | None
    """The parameter that is wrong, null where none is."""
    code: Code
    retryable: Retryable
    request_id: RequestId

    @classmethod
    def of(cls, info: ErrorInfo) -> Self:
        status = class_of(info.code).http_status
        found = _PARAM.match(info.content) if status < 500 else None
        return cls(
            message=info.content,
            type=_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error"),
            param=None if found is None else found[1],
            code=info.code,
            retryable=info.retryable,
            request_id=info.request_id,
        )


class OpenAIError(ErrorForm):
    """A refused request, or in a stream a failed answer."""

    error: OpenAIErrorInfo

    @classmethod
    def of(cls, info: ErrorInfo) -> Self:
        return cls(error=OpenAIErrorInfo.of(info))


def error_of(info: ErrorInfo, *, may_repeat: bool) -> Response:
    """The answer to a request whose exchange has failed.

    OpenAI's clients send a request again by its status, unless they are told not to: it would ask twice.
    """
    headers = {} if info.retryable and may_repeat else {"x-should-retry": "false"}
    return json_response(OpenAIError.of(info), class_of(info.code).http_status, headers)


_NAMES = {
    "agent_id": "model",
    "attachments": "messages",
    "client_exchange_id": "Idempotency-Key",
    "file": "messages",
    "message": "messages",
    "payload": "messages",
}


@contextmanager
def named_as_openai(messages: str = "messages") -> Iterator[None]:
    """Raises what its block raises of a field with the name that this has in the body.

    The rules of asks name the fields of frames; `messages` is what this body calls the conversation.
    """
    try:
        yield
    except (BadFrame, MessageTooLarge) as error:
        renamed = re.sub(r"^\w+(?=[.:])", lambda field: _NAMES.get(field[0], field[0]), error.content)
        raise type(error)(re.sub(r"^messages(?=[.:])", messages, renamed)) from None
