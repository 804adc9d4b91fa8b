"""The answer to a request that no application sees: the same form as theirs, with the same ids."""

import logging
from collections.abc import Mapping

from starlette.responses import Response

from agentic_backend.errors import AgenticError
from agentic_backend.tracing.origin import REQUEST_ID, TRACEPARENT, Origin
from agentic_backend.transports.rest.rest_errors import error_response

log = logging.getLogger(__name__)


def refusal_of(error: AgenticError, status: int, headers: Mapping[str, str]) -> Response:
    """Log the refusal of a request with these headers, and return its answer, which closes the connection."""
    origin = Origin.of(headers)
    log.info("request refused", extra={"request_id": origin.request_id, "code": error.code, "status": status})
    response = error_response(error, origin.request_id, status)
    response.headers.update(
        {
            "x-content-type-options": "nosniff",
            "cross-origin-resource-policy": "same-origin",
            REQUEST_ID: origin.request_id,
            TRACEPARENT: origin.traceparent,
            "connection": "close",
        }
    )
    return response
