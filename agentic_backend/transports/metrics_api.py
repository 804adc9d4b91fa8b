"""The metrics calls: figures over the KPI records, of the caller's own exchanges or, for an admin, of all."""

from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentic_backend.auth.user import User
from agentic_backend.errors import BadFrame
from agentic_backend.sessions.kpi_report import FIELDS, GROUPS, OPERATIONS, Aggregation, Precision, numerical, summary
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import KpiRecord
from agentic_backend.transports.rest_calls import RestCalls
from agentic_backend.transports.rest_errors import json_response

_PATH = "/agentic/v1/metrics/chatbot"
_RECORDS_AT_MOST = 100_000


class MetricsApi:
    def __init__(self, calls: RestCalls, store: Store) -> None:
        self._calls = calls
        self._store = store

    def routes(self) -> list[Route]:
        calls = [("GET", "/numerical", self._numerical), ("GET", "/summary", self._summary)]
        return self._calls.routes(_PATH, calls)

    async def _numerical(self, request: Request, user: User) -> Response:
        precision = _precision(request)
        aggregations = [_aggregation(text) for text in request.query_params.getlist("agg")]
        if not aggregations:
            raise BadFrame("agg: expected at least one field:op, such as latency_ms:p95")
        groupby = request.query_params.getlist("groupby")
        for name in groupby:
            if name not in GROUPS:
                raise BadFrame(f"groupby: expected one of {', '.join(GROUPS)}")
        return json_response(numerical(await self._records(request, user), precision, aggregations, groupby))

    async def _summary(self, request: Request, user: User) -> Response:
        return json_response(summary(await self._records(request, user)))

    async def _records(self, request: Request, user: User) -> list[KpiRecord]:
        start, end = _time(request, "start"), _time(request, "end")
        if start >= end:
            raise BadFrame("end: expected a time after start")
        whose = None if "admin" in user.roles else user.id
        records = await self._store.kpi_records(user_id=whose, start=start, end=end, limit=_RECORDS_AT_MOST + 1)
        if len(records) > _RECORDS_AT_MOST:
            raise BadFrame(f"start, end: more than {_RECORDS_AT_MOST} exchanges lie between; narrow the time")
        return records


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


def _time(request: Request, name: str) -> datetime:
    """A time in RFC 3339; without an offset it is UTC."""
    # A plus sign in a query that was not escaped arrives as a space.
    text = request.query_params.get(name, "").strip().replace(" ", "+")
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise BadFrame(f"{name}: expected a time such as 2026-01-31T00:00:00Z") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
