"""UsageReports: few sums are computed at once, and those of a session wait for no others."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.failing_store import FailingStore
from support.recorded_agents import eventually

from agentic_backend.errors import RateLimited
from agentic_backend.policy.usage.prices import Prices
from agentic_backend.sessions.reading import usage_reports as module
from agentic_backend.sessions.reading.usage_reports import UsageReports
from agentic_backend.stores.protocol.usage_sums import UsageQuery
from agentic_backend.stores.sqlite import SqliteStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FailingStore]:
    real = await SqliteStore.open(tmp_path / "chat.sqlite3", timeout_s=10)
    yield FailingStore(real)
    await real.aclose()


async def test_one_user_is_given_one_long_sum_at_a_time_and_all_of_them_a_few(
    store: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAIT_S", 0.2)
    reports, computed = UsageReports(store.as_store, Prices()), store.hold("usage_sums")
    asking = [asyncio.create_task(reports.sums(name, UsageQuery(name))) for name in ("ann", "ann", "bob", "cy")]
    await eventually(lambda: sum(task.done() for task in asking) == 2)
    assert len(store.waiting) == 2
    of_session = asyncio.create_task(reports.sums("ann", UsageQuery("ann", session_id="s")))
    await eventually(lambda: len(store.waiting) == 3)
    computed.set()
    assert (await of_session).sums == []
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert [isinstance(each, RateLimited) for each in found] == [False, True, False, True]
