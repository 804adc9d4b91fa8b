"""KpiStore, and figures over KPI records: the query, its result, and their computation where a database can't."""

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from statistics import fmean
from typing import Any, Protocol

from pydantic_core import from_json

from agentic_backend.stores.records import KpiRecord

_Record = Mapping[str, Any]

FIELDS: dict[str, Callable[[_Record], float | None]] = {
    "latency_ms": lambda record: record["latency_ms"],
    "first_token_ms": lambda record: record["first_token_ms"],
    "input_tokens": lambda record: record["usage"].get("input_tokens"),
    "output_tokens": lambda record: record["usage"].get("output_tokens"),
    "total_tokens": lambda record: record["usage"].get("total_tokens"),
    "tool_calls": lambda record: len(record["tools"]),
    "failed_tools": lambda record: record["failed_tools"],
}
"""The fields that can be aggregated, each read from a record's JSON."""

GROUPS = ("agent_id", "status", "model", "session_id", "user_id")

PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}


def _percentile(values: Sequence[float], percent: int) -> float:
    """The percentile by nearest rank: the least value that at least `percent` of the values don't exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


OPERATIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "sum": sum,
    "min": min,
    "max": max,
    "count": len,
    **{name: partial(_percentile, percent=percent) for name, percent in PERCENTILES.items()},
}


@dataclass(frozen=True, slots=True)
class Aggregation:
    """`field` is a key of FIELDS, `operation` one of OPERATIONS."""

    field: str
    operation: str

    @property
    def name(self) -> str:
        return f"{self.field}:{self.operation}"


@dataclass(frozen=True, slots=True)
class KpiQuery:
    """A query over the exchanges of `user_id` (None: of all users) that started in [start, end).

    `seconds` is the length of a bucket of time; None puts all into one. `groupby` are some of GROUPS.
    """

    user_id: str | None
    start: datetime
    end: datetime
    seconds: int | None
    groupby: tuple[str, ...]
    aggregations: tuple[Aggregation, ...]
    limit: int


@dataclass(frozen=True, slots=True)
class KpiBucket:
    """`begin` is in Unix seconds. `figures` match the query's aggregations: None if no record has the field, but 0 for
    a count.
    """

    begin: int
    group: tuple[str | None, ...]
    figures: tuple[float | None, ...]


class KpiGathering:
    """Aggregates records batch by batch, in a thread because that takes long. Keeps only their numbers."""

    def __init__(self, query: KpiQuery) -> None:
        self._query = query
        self._fields = tuple({aggregation.field for aggregation in query.aggregations})
        self._values: dict[tuple[int, tuple[str | None, ...]], dict[str, array[float]]] = {}

    @property
    def is_full(self) -> bool:
        """Whether there are more buckets than the query wants, so that later records can't matter."""
        return len(self._values) > self._query.limit

    def add(self, rows: Sequence[tuple[str, str]]) -> None:
        """Add rows: the start of an exchange, in RFC 3339 in UTC, and its record in JSON."""
        for started_at, text in rows:
            record = from_json(text)
            key = self._begin(started_at), tuple(record[name] for name in self._query.groupby)
            values = self._values.get(key)
            if values is None:
                values = self._values[key] = {name: array("d") for name in self._fields}
            for name in self._fields:
                value = FIELDS[name](record)
                if value is not None:
                    values[name].append(value)

    def buckets(self) -> list[KpiBucket]:
        """By time, then by group."""
        ordered = sorted(self._values.items(), key=lambda item: (item[0][0], [name or "" for name in item[0][1]]))
        return [
            KpiBucket(begin, group, tuple(_figure(values[a.field], a.operation) for a in self._query.aggregations))
            for (begin, group), values in ordered[: self._query.limit]
        ]

    def _begin(self, started_at: str) -> int:
        seconds = self._query.seconds
        if seconds is None:
            return 0
        # Without the fraction: buckets are whole seconds.
        at = datetime.fromisoformat(f"{started_at[:19]}+00:00")
        return int(at.timestamp()) // seconds * seconds


def _figure(values: Sequence[float], operation: str) -> float | None:
    if not values:
        return 0 if operation == "count" else None
    return OPERATIONS[operation](values)


class KpiStore(Protocol):
    """The operations of a Store on KPI records; those of sessions are written with their exchange's end."""

    async def record_kpi(self, record: KpiRecord) -> None:
        """Store the KPIs of an exchange that stores nothing else (query mode)."""
        ...

    async def kpi_record(self, exchange_id: str) -> KpiRecord | None:
        """The KPIs of an exchange that has ended."""
        ...

    async def kpi_figures(self, query: KpiQuery) -> list[KpiBucket]:
        """The first `query.limit` buckets of figures over KPI records, by time and group.

        Raises RateLimited if this exceeds the timeout of an operation; the store then stops it.
        """
        ...
