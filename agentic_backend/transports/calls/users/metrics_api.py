"""The metrics calls: figures from the KPI records of the caller's exchanges or, for an admin, of all exchanges."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, WithJsonSchema
from starlette.requests import Request

from agentic_backend.auth.user import User
from agentic_backend.errors import BadFrame
from agentic_backend.sessions.reading.kpi_report import NumericalReport, Precision, SummaryReport
from agentic_backend.stores.protocol.kpi_figures import FIELDS, GROUPS, OPERATIONS, Aggregation
from agentic_backend.transports.calls.admin.admin_gate import called
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.operation import PREFIX, Operation
from agentic_backend.transports.rest.query_string import Query, Time

_PATH = f"{PREFIX}/metrics/chatbot"
_AGGREGATIONS_AT_MOST = 20
_AGGREGATION = f"^({'|'.join(FIELDS)}):({'|'.join(OPERATIONS)})$"


class Span(Query):
    """Exchanges that began from `start` on and before `end`, which is after it."""

    start: Time = Field(description="Only exchanges that began from this time on.", examples=["2026-11-01T00:00:00Z"])
    end: Time = Field(
        description="Only exchanges that began before this time, which is after `start`.",
        examples=["2026-12-01T00:00:00Z"],
    )

    def check(self) -> None:
        """Raises BadFrame."""
        if self.start >= self.end:
            raise BadFrame("end: expected a time after start")


class NumericalFigures(Span):
    precision: Precision = Field(Precision.HOUR, description="The length of a bucket.")
    agg: list[Annotated[str, WithJsonSchema({"type": "string", "pattern": _AGGREGATION})]] = Field(
        max_length=_AGGREGATIONS_AT_MOST,
        json_schema_extra={"uniqueItems": True},
        description=f"Each `field:op`: a field of {', '.join(FIELDS)}, an op of {', '.join(OPERATIONS)}.",
        examples=[["latency_ms:p95"]],
    )
    groupby: list[Annotated[str, WithJsonSchema({"type": "string", "enum": list(GROUPS)})]] = Field(
        default_factory=list,
        max_length=len(GROUPS),
        json_schema_extra={"uniqueItems": True},
        description=f"Each one of {', '.join(GROUPS)}.",
        examples=[["agent_id"]],
    )


class MetricsApi:
    def __init__(self, services: DoorServices) -> None:
        self._door = services
        self._reports = services.sessions.reports

    def operations(self) -> list[Operation]:
        return [
            Operation("GET", f"{_PATH}/numerical", self.numerical_metrics),
            Operation("GET", f"{_PATH}/summary", self.summary_metrics),
        ]

    async def numerical_metrics(self, request: Request, user: User, query: NumericalFigures) -> NumericalReport:
        """Figures of exchanges by time and group: the caller's own, an admin's of all users."""
        query.check()
        aggregations = [_aggregation(text) for text in _once(query.agg, "agg")]
        groupby = _once(query.groupby, "groupby")
        for name in groupby:
            if name not in GROUPS:
                raise BadFrame(f"groupby: expected one of {', '.join(GROUPS)}")
        whose = await self._whose(request, user)
        return await self._reports.numerical(
            user.id, whose, query.start, query.end, query.precision, aggregations, groupby
        )

    async def summary_metrics(self, request: Request, user: User, query: Span) -> SummaryReport:
        """Totals of exchanges by agent and status: the caller's own, an admin's of all users."""
        query.check()
        return await self._reports.summary(user.id, await self._whose(request, user), query.start, query.end)

    async def _whose(self, request: Request, user: User) -> str | None:
        """The id of the user whose exchanges `user` may see; None for all users: that an admin sees them is recorded.

        Raises StoreUnavailable.
        """
        if not user.is_admin:
            return user.id
        await self._door.sessions.admin_reads.note(user.id, called(request), None)
        return None


def _once(values: Sequence[str], name: str) -> Sequence[str]:
    """The values of a repeatable parameter. Raises BadFrame if one is repeated."""
    repeated = next((value for place, value in enumerate(values) if value in values[:place]), None)
    if repeated is not None:
        raise BadFrame(f"{name}: {repeated[:100]} is there twice")
    return values


def _aggregation(text: str) -> Aggregation:
    field, _, operation = text.partition(":")
    if field not in FIELDS or operation not in OPERATIONS:
        raise BadFrame(f"agg: expected field:op, a field of {', '.join(FIELDS)}, an op of {', '.join(OPERATIONS)}")
    return Aggregation(field, operation)
