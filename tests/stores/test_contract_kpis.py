"""Figures over KPI records, on each store: they are what the records say, counted one by one."""

import math
import random
from collections import defaultdict
from datetime import timedelta
from statistics import fmean
from typing import Any

import pytest

from agentic_backend.protocol.messages import ExchangeStatus, TokenUsage
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.kpi_figures import FIELDS, OPERATIONS, Aggregation, KpiBucket, KpiQuery
from agentic_backend.stores.records import KpiRecord
from tests.stores.conftest import WITH_FEWER_STAGES
from tests.stores.samples import EPOCH, a_kpi, a_kpi_query, as_kpis, kpis_of, new_id

pytestmark = WITH_FEWER_STAGES
EVERYTHING = tuple(Aggregation(field, operation) for field in FIELDS for operation in OPERATIONS)


def one_by_one(values: list[float], operation: str) -> float | None:
    if not values:
        return 0 if operation == "count" else None
    ordered = sorted(values)
    match operation:
        case "mean":
            return fmean(values)
        case "sum":
            return math.fsum(values)
        case "min":
            return ordered[0]
        case "max":
            return ordered[-1]
        case "count":
            return len(values)
    # The nearest rank: the first value up to which there are at least so many percent.
    percent = int(operation[1:])
    return next(value for place, value in enumerate(ordered, 1) if 100 * place >= percent * len(ordered))


def expected(records: list[KpiRecord], query: KpiQuery) -> list[KpiBucket]:
    gathered: dict[tuple[int, tuple[str | None, ...]], list[KpiRecord]] = defaultdict(list)
    for record in records:
        if query.user_id in (None, record.user_id) and query.start <= record.started_at < query.end:
            at = 0 if query.seconds is None else int(record.started_at.timestamp()) // query.seconds * query.seconds
            group = tuple(None if (name := getattr(record, key)) is None else str(name) for key in query.groupby)
            gathered[at, group].append(record)

    def value(record: KpiRecord, field: str) -> float | None:
        return FIELDS[field](record.model_dump(mode="json"))

    def figures(members: list[KpiRecord]) -> tuple[float | None, ...]:
        return tuple(
            one_by_one([v for member in members if (v := value(member, a.field)) is not None], a.operation)
            for a in query.aggregations
        )

    ordered = sorted(gathered.items(), key=lambda item: (item[0][0], [name or "" for name in item[0][1]]))
    return [KpiBucket(at, group, figures(members)) for (at, group), members in ordered]


def random_record(chance: random.Random, users: list[str]) -> KpiRecord:
    return a_kpi(
        chance.choice(users),
        started_at=EPOCH + timedelta(seconds=chance.randrange(7200), microseconds=chance.choice([0, 1, 999_999])),
        agent_id=chance.choice(["one", "two"]),
        status=chance.choice([ExchangeStatus.OK, ExchangeStatus.ERROR]),
        model=chance.choice([None, "scripted", "größer"]),
        latency_ms=chance.choice([0, 1, chance.randrange(100_000)]),
        first_token_ms=chance.choice([None, chance.randrange(100)]),
        usage=TokenUsage(input_tokens=chance.randrange(2**53)),
        tools=["search"] * chance.randrange(4),
        failed_tools=chance.randrange(3),
    )


QUERIES: list[dict[str, Any]] = [
    {"seconds": 60, "groupby": ()},
    {"seconds": 3600, "groupby": ("agent_id", "model")},
    {"seconds": 1, "groupby": ("status",)},
    {"seconds": 86_400, "groupby": ("user_id", "session_id")},
    {"seconds": None, "groupby": ("agent_id", "status")},
    {"seconds": 3600, "groupby": (), "start": EPOCH + timedelta(minutes=40), "end": EPOCH + timedelta(minutes=90)},
]


async def test_figures_are_those_of_the_records(store: Store) -> None:
    chance = random.Random(7)
    users = [new_id(), new_id()]
    records = [random_record(chance, users) for _ in range(120)]
    for record in records:
        await store.record_kpi(record)
    for fields in QUERIES:
        query = a_kpi_query(users[0], aggregations=EVERYTHING, **fields)
        found, wanted = await store.kpi_figures(query), expected(records, query)
        begun = [(bucket.begin, bucket.group) for bucket in found]
        assert begun == [(bucket.begin, bucket.group) for bucket in wanted], fields
        for bucket, other in zip(found, wanted, strict=True):
            assert list(bucket.figures) == pytest.approx(list(other.figures)), fields


async def test_everybody_s_figures_are_there_too(store: Store) -> None:
    users = [new_id(), new_id()]
    records = [a_kpi(user, minute=minute) for minute, user in enumerate(users)]
    for record in records:
        await store.record_kpi(record)
    for user, record in zip(users, records, strict=True):
        assert await kpis_of(store, user) == as_kpis(record)
    everybody = [bucket for bucket in await kpis_of(store, None) if bucket.group[-1] in users]
    assert everybody == as_kpis(*records)
    assert await kpis_of(store, new_id()) == []


async def test_no_more_buckets_come_than_are_wanted(store: Store) -> None:
    user = new_id()
    for minute in (3, 1, 2, 0):
        await store.record_kpi(a_kpi(user, minute=minute))
    begins = [bucket.begin for bucket in await store.kpi_figures(a_kpi_query(user, seconds=60, limit=3))]
    assert begins == [int((EPOCH + timedelta(minutes=minute)).timestamp()) for minute in range(3)]


async def test_a_kpi_record_sent_again_counts_once(store: Store) -> None:
    record = a_kpi(new_id())
    await store.record_kpi(record)
    await store.record_kpi(record)
    assert await kpis_of(store, record.user_id) == as_kpis(record)


@pytest.mark.parametrize("known", [{"restore": "cold", "instance": "server-1"}, {}])
async def test_a_kpi_record_is_found_by_its_exchange(store: Store, known: dict[str, Any]) -> None:
    record = a_kpi(new_id(), **known)
    await store.record_kpi(record)
    assert await store.kpi_record(record.exchange_id) == record
    assert await store.kpi_record(new_id()) is None
