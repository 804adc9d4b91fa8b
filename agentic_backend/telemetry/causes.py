"""What a log line says of the error that it is about."""

from typing import Any

from agentic_backend.errors import AgenticError


def because_of(error: Exception, **fields: object) -> dict[str, Any]:
    """Arguments of a log call: `fields` and the error's code; any other exception is shown whole, without a code."""
    code = error.code if isinstance(error, AgenticError) else None
    return {"exc_info": None if code else error, "extra": {**fields, "code": code}}
