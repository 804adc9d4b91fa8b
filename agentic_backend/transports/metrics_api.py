"""The metrics calls: figures from the KPI records of the caller's exchanges or, for an admin, of all exchanges."""

from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentic_backend.auth.user import User
from agentic_backend.errors import BadFrame
from agentic_backend.sessions.kpi_report import Precision
from agentic_backend.stores.kpi_figures import FIELDS, GROUPS, OPERATIONS, Aggregation
from agentic_backend.transports.admin_gate import called
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest_calls import RestCalls
from agentic_backend.transports.rest_errors import json_response
from agentic_backend.transports.rest_input import time_of

_PATH = "/agentic/v1/metrics/chatbot"
_AGGREGATIONS_AT_MOST = 20


class MetricsApi:
    def __init__(self, calls: RestCalls, services: DoorServices) -> None:
        self._calls = calls
        self._door = services

    def routes(self) -> list[Route]:
        calls = [("GET", "/numerical", self._numerical), ("GET", "/summary", self._summary)]
        return self._calls.routes(_PATH, calls)

    async def _numerical(self, request: Request, user: User) -> Response:
        precision = _precision(request)
        aggregations = [_aggregation(text) for text in _several(request, "agg", _AGGREGATIONS_AT_MOST)]
        if not aggregations:
            raise BadFrame("agg: expected at least one field:op, such as latency_ms:p95")
        groupby = _several(request, "groupby", len(GROUPS))
        for name in groupby:
            if name not in GROUPS:
                raise BadFrame(f"groupby: expected one of {', '.join(GROUPS)}")
        start, end = _span(request)
        return json_response(
            await self._door.reports.numerical(
                user.id, await self._whose(request, user), start, end, precision, aggregations, groupby
            )
        )

    async def _summary(self, request: Request, user: User) -> Response:
        start, end = _span(request)
        return json_response(await self._door.reports.summary(user.id, await self._whose(request, user), start, end))

    async def _whose(self, request: Request, user: User) -> str | None:
        """The id of the user whose exchanges `user` may see; None for all users: that an admin sees them is recorded.

        Raises StoreUnavailable.
        """
        if not user.is_admin:
            return user.id
        await self._door.admin_reads.note(user.id, called(request), None)
        return None


def _several(request: Request, name: str, at_most: int) -> list[str]:
    """The values of a repeatable parameter. Raises BadFrame if there are too many or one is repeated."""
    values = request.query_params.getlist(name)
    if len(values) > at_most:
        raise BadFrame(f"{name}: expected at most {at_most}")
    repeated = next((value for place, value in enumerate(values) if value in values[:place]), None)
    if repeated is not None:
        raise BadFrame(f"{name}: {repeated[:100]} is there twice")
    return values


def _span(request: Request) -> tuple[datetime, datetime]:
    start, end = time_of(request, "start"), time_of(request, "end")
    if start >= end:
        raise BadFrame("end: expected a time after start")
    return start, end


def _aggregation(text: str) -> Aggregation:
    field, _, operation = text.partition(":")
    if field not in FIELDS or operation not in OPERATIONS:
        raise BadFrame(f"agg: expected field:op, a field of {', '.join(FIELDS)}, an op of {', '.join(OPERATIONS)}")
    return Aggregation(field, operation)


def _precision(request: Request) -> Precision:
    text = request.query_params.get("precision", Precision.HOUR.value)
    if text not in list(Precision):
        raise BadFrame(f"precision: expected one of {', '.join(Precision)}")
    return Precision(text)
