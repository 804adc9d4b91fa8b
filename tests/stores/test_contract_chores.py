"""What every store does for chores, whichever database is beneath it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from agentic_backend.protocol.messages import SessionState
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.trail import TrailQuery, UsageRecord
from agentic_backend.stores.tables import AUDITS, KPI_RECORDS, TABLES, USAGE, Table
from tests.stores.conftest import OpenMongo, OpenStore
from tests.stores.samples import EPOCH, a_kpi, a_session, as_kpis, begin, kpis_of
from tests.stores.trail_samples import a_usage


async def test_the_owner_of_a_chore_prolongs_its_claim(store: Store) -> None:
    for _ in range(2):
        assert await store.claim_chore("tidy", "one", 60)
    assert await store.claim_chore("other", "one", 60)


async def test_only_one_instance_has_a_chore_until_its_claim_ends(open_mongo: OpenMongo) -> None:
    one, two = await open_mongo(), await open_mongo()
    assert await one.claim_chore("tidy", "one", 60)
    assert not await two.claim_chore("tidy", "two", 60)
    assert await two.claim_chore("other", "two", 60)
    assert await one.claim_chore("tidy", "one", 0)
    await asyncio.sleep(0.01)
    assert await two.claim_chore("tidy", "two", 60)
    assert not await one.claim_chore("tidy", "one", 60)


async def test_of_many_that_claim_a_chore_at_once_one_gets_it(open_mongo: OpenMongo) -> None:
    store = await open_mongo()
    for ends_s in (-60, 60):
        claims = [store.claim_chore("tidy", str(number), ends_s) for number in range(8)]
        claimed = await asyncio.gather(*claims)
        # A claim that has ended already lets the next one in.
        assert any(claimed) and (ends_s < 0 or sum(claimed) == 1)


async def test_idle_sessions_are_those_in_which_nothing_runs_the_oldest_first(
    store: Store, open_store: OpenStore
) -> None:
    for minute in (3, 1, 2, 5):
        await store.create_session(a_session(id=f"{minute}", minute=minute))
    busy, done = a_session(id="busy"), a_session(id="done", state=SessionState.COMPLETED)
    for session in (busy, done):
        await store.create_session(session)
    await begin(store, busy)
    before = EPOCH + timedelta(minutes=5)
    found = await store.idle_sessions(SessionState.ACTIVE, before, 10)
    assert [session.id for session in found] == ["1", "2", "3"]
    assert await store.idle_sessions(SessionState.ACTIVE, before, 2) == found[:2]
    assert await store.idle_sessions(SessionState.COMPLETED, before, 10) == [done]


async def test_old_rows_are_deleted_the_oldest_first_and_so_many_at_a_time(store: Store) -> None:
    kpis = [a_kpi(minute=minute) for minute in range(4)]
    for kpi in kpis:
        await store.record_kpi(kpi)
    await store.add_trail([a_usage(id=f"{minute}", minute=minute) for minute in range(4)])
    before = EPOCH + timedelta(minutes=3)
    for table in (KPI_RECORDS, USAGE):
        assert [await store.delete_old(table, before, 2) for _ in range(3)] == [2, 1, 0]
    assert await store.delete_old(AUDITS, before, 2) == 0
    assert await kpis_of(store, "ann") == as_kpis(kpis[3])
    assert [record.id for record in (await store.trail(TrailQuery(UsageRecord))).records] == ["3"]


@pytest.mark.parametrize("table", [table for table in TABLES if table.time], ids=lambda table: table.name)
def test_the_age_of_rows_has_an_index(table: Table[Any]) -> None:
    assert any(columns[0].lstrip("-") == table.time for columns in table.indexes.values())
