"""KPI reports: figures over KPI records, by time and by group. Pure functions."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from statistics import fmean

from agentic_backend.protocol.messages import Timestamp
from agentic_backend.protocol.parts import Value
from agentic_backend.stores.records import KpiRecord


class Precision(StrEnum):
    """How long a bucket of time is."""

    SECOND = "sec"
    MINUTE = "min"
    HOUR = "hour"
    DAY = "day"

    @property
    def seconds(self) -> int:
        return {"sec": 1, "min": 60, "hour": 3600, "day": 86400}[self.value]


FIELDS: dict[str, Callable[[KpiRecord], float | None]] = {
    "latency_ms": lambda record: record.latency_ms,
    "first_token_ms": lambda record: record.first_token_ms,
    "input_tokens": lambda record: record.usage.input_tokens,
    "output_tokens": lambda record: record.usage.output_tokens,
    "total_tokens": lambda record: record.usage.total_tokens,
    "tool_calls": lambda record: len(record.tools),
    "failed_tools": lambda record: record.failed_tools,
}
GROUPS: dict[str, Callable[[KpiRecord], str | None]] = {
    "agent_id": lambda record: record.agent_id,
    "status": lambda record: record.status.value,
    "model": lambda record: record.model,
    "session_id": lambda record: record.session_id,
    "user_id": lambda record: record.user_id,
}
OPERATIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "sum": sum,
    "min": min,
    "max": max,
    "count": len,
    "p50": lambda values: _percentile(values, 50),
    "p95": lambda values: _percentile(values, 95),
    "p99": lambda values: _percentile(values, 99),
}


@dataclass(frozen=True, slots=True)
class Aggregation:
    """`field` is a key of FIELDS, `operation` one of OPERATIONS."""

    field: str
    operation: str

    @property
    def name(self) -> str:
        return f"{self.field}:{self.operation}"


class Bucket(Value):
    """`timestamp` is the bucket's beginning; an aggregation is None where no record has its field."""

    timestamp: Timestamp
    group: dict[str, str | None]
    aggregations: dict[str, float | None]


class NumericalReport(Value):
    precision: Precision
    buckets: list[Bucket]


class Total(Value):
    agent_id: str
    status: str
    count: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    latency_ms_mean: float


class SummaryReport(Value):
    totals: list[Total]


def numerical(
    records: Iterable[KpiRecord],
    precision: Precision,
    aggregations: Sequence[Aggregation],
    groupby: Sequence[str],
) -> NumericalReport:
    """`aggregations` of the records of each bucket of time and group, by time; `groupby` are keys of GROUPS."""
    gathered: dict[tuple[int, tuple[str | None, ...]], list[KpiRecord]] = defaultdict(list)
    for record in records:
        begin = int(record.started_at.timestamp()) // precision.seconds * precision.seconds
        gathered[begin, tuple(GROUPS[name](record) for name in groupby)].append(record)
    ordered = sorted(gathered.items(), key=lambda item: (item[0][0], [name or "" for name in item[0][1]]))
    return NumericalReport(
        precision=precision,
        buckets=[
            Bucket(
                timestamp=datetime.fromtimestamp(begin, UTC),
                group=dict(zip(groupby, group, strict=True)),
                aggregations={aggregation.name: _aggregate(members, aggregation) for aggregation in aggregations},
            )
            for (begin, group), members in ordered
        ],
    )


def summary(records: Iterable[KpiRecord]) -> SummaryReport:
    """Totals by agent and status."""
    gathered: dict[tuple[str, str], list[KpiRecord]] = defaultdict(list)
    for record in records:
        gathered[record.agent_id, record.status.value].append(record)
    return SummaryReport(
        totals=[
            Total(
                agent_id=agent_id,
                status=status,
                count=len(members),
                input_tokens=sum(record.usage.input_tokens for record in members),
                output_tokens=sum(record.usage.output_tokens for record in members),
                total_tokens=sum(record.usage.total_tokens for record in members),
                latency_ms_mean=fmean(record.latency_ms for record in members),
            )
            for (agent_id, status), members in sorted(gathered.items())
        ]
    )


def _aggregate(records: Sequence[KpiRecord], aggregation: Aggregation) -> float | None:
    values = [value for record in records if (value := FIELDS[aggregation.field](record)) is not None]
    if not values:
        return 0 if aggregation.operation == "count" else None
    return OPERATIONS[aggregation.operation](values)


def _percentile(values: Sequence[float], percent: int) -> float:
    """The least value that at least `percent` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
