"""KPI reports: figures over KPI records by time and by group, which the store computes; the KPIs of one exchange."""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum

from agentic_backend.auth.user import User
from agentic_backend.errors import BadFrame, ExchangeNotFound
from agentic_backend.protocol.messages import Timestamp
from agentic_backend.protocol.parts import Value
from agentic_backend.sessions.bulkhead import Bulkhead
from agentic_backend.sessions.reading.exchange_kpi import ExchangeKpi, calls_of, exchange_kpi
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.kpi_figures import Aggregation, KpiBucket, KpiQuery
from agentic_backend.stores.records import ExchangeRecord, KpiRecord

BUCKETS_AT_MOST = 10_000
# How many reports are computed at once, and how long in seconds one waits for others.
_PER_USER, _IN_ALL, _WAIT_S = 1, 2, 5.0

_TOTALS = (
    Aggregation("latency_ms", "count"),
    Aggregation("input_tokens", "sum"),
    Aggregation("output_tokens", "sum"),
    Aggregation("total_tokens", "sum"),
    Aggregation("latency_ms", "mean"),
)


class Precision(StrEnum):
    """The length of a time bucket."""

    SECOND = "sec"
    MINUTE = "min"
    HOUR = "hour"
    DAY = "day"

    @property
    def seconds(self) -> int:
        return {"sec": 1, "min": 60, "hour": 3600, "day": 86400}[self.value]


class Bucket(Value):
    """`timestamp` is the bucket's start; an aggregation is None if no record has its field."""

    timestamp: Timestamp
    group: dict[str, str | None]
    aggregations: dict[str, float | None]


class NumericalReport(Value):
    """Figures by time and group; only buckets that have any exchange."""

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
    """Totals by agent and status."""

    totals: list[Total]


class KpiReports:
    """Reports over the exchanges of the user `whose` (None: all users) that started in [start, end), and over one.

    `reader` is the id of the user who reads them. They raise RateLimited if too many reports are being computed, or one
    takes too long.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        content = "Too many reports are computed; wait until some are answered."
        self._at_once = Bulkhead(per_user=_PER_USER, in_all=_IN_ALL, wait_s=_WAIT_S, content=content)

    async def numerical(
        self,
        reader: str,
        whose: str | None,
        start: datetime,
        end: datetime,
        precision: Precision,
        aggregations: Sequence[Aggregation],
        groupby: Sequence[str],
    ) -> NumericalReport:
        """The `aggregations` of each time bucket and group, by time. Raises BadFrame if there are too many buckets."""
        query = KpiQuery(
            whose, start, end, precision.seconds, tuple(groupby), tuple(aggregations), limit=BUCKETS_AT_MOST + 1
        )
        found = await self._figures(reader, query)
        return NumericalReport(
            precision=precision,
            buckets=[
                Bucket(
                    timestamp=datetime.fromtimestamp(bucket.begin, UTC),
                    group=dict(zip(groupby, bucket.group, strict=True)),
                    aggregations={a.name: figure for a, figure in zip(aggregations, bucket.figures, strict=True)},
                )
                for bucket in found
            ],
        )

    async def summary(self, reader: str, whose: str | None, start: datetime, end: datetime) -> SummaryReport:
        """Totals by agent and status."""
        query = KpiQuery(whose, start, end, None, ("agent_id", "status"), _TOTALS, limit=BUCKETS_AT_MOST + 1)
        return SummaryReport(totals=[_total(bucket) for bucket in await self._figures(reader, query)])

    async def exchange(self, user: User, exchange_id: str) -> tuple[ExchangeRecord, ExchangeKpi]:
        """The user's exchange and its KPIs. A query is found by its KPIs, the only record of it, once it has ended.

        Raises ExchangeNotFound if there is none or it is another user's.
        """
        exchange, kpi = await self._store.get_exchange(exchange_id), None
        if exchange is None or exchange.status.ended:
            kpi = await self._store.kpi_record(exchange_id)
        if exchange is None and kpi is not None and kpi.session_id is None:
            exchange = _query_of(kpi)
        if exchange is None or exchange.user_id != user.id:
            raise ExchangeNotFound
        return exchange, exchange_kpi(exchange, kpi, await self._store.usage_sums(calls_of(exchange_id)))

    async def _figures(self, reader: str, query: KpiQuery) -> list[KpiBucket]:
        async with self._at_once.entered(reader):
            found = await self._store.kpi_figures(query)
        if len(found) > BUCKETS_AT_MOST:
            raise BadFrame(
                f"precision, groupby: more than {BUCKETS_AT_MOST} buckets; take longer ones, fewer groups or less time"
            )
        return found


def _query_of(kpi: KpiRecord) -> ExchangeRecord:
    """The record of a query, as far as it is known."""
    return ExchangeRecord(
        id=kpi.exchange_id,
        session_id="",
        user_id=kpi.user_id,
        agent_id=kpi.agent_id,
        status=kpi.status,
        request_id="",
        started_at=kpi.started_at,
        usage=kpi.usage,
    )


def _total(bucket: KpiBucket) -> Total:
    agent_id, status = bucket.group
    count, input_tokens, output_tokens, total_tokens, latency_ms = (figure or 0 for figure in bucket.figures)
    return Total(
        agent_id=agent_id or "",
        status=status or "",
        count=int(count),
        input_tokens=int(input_tokens),
        output_tokens=int(output_tokens),
        total_tokens=int(total_tokens),
        latency_ms_mean=latency_ms,
    )
