"""What is too old is deleted, and nothing else, a few rows at a time."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.held_agents import Hold, held_graph
from support.recorded_agents import echoing_graph
from support.sessions import Sessions, open_sessions, until

from agentic_backend.config.topics.sessions import RetentionSettings, SessionsSettings
from agentic_backend.protocol.messages import SessionState
from agentic_backend.sessions.session_ends import SessionEnds
from agentic_backend.sessions.upkeep.retention import Retention
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.tables import KPI_RECORDS, SESSIONS, TABLES, USAGE
from tests.stores.samples import EPOCH, a_kpi, a_session, fork, run_exchanges
from tests.stores.trail_samples import a_usage, one_of_each


@pytest.fixture(params=["sqlite", *ON_MONGODB])
async def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sessions]:
    agents = {"echo": echoing_graph(), "held": held_graph(Hold())}
    if request.param == "sqlite":
        async with open_sessions(tmp_path, agents) as sessions:
            yield sessions
    else:
        async with fresh_database(server_url(request.param, request)) as url:
            database = await MongoStore.open(url, timeout_s=10)
            async with open_sessions(tmp_path, agents, database=database) as sessions:
                yield sessions


def retention(sessions: Sessions, counted_since: datetime | None = None, **days: float) -> Retention:
    store = sessions.store.as_store
    ends = SessionEnds(store, sessions.relay, sessions.factory, sessions.kpi, lambda session, user: None)
    return Retention(store, ends, sessions.service, RetentionSettings(**days), lambda: counted_since)


async def tidy(kept: Retention, limit: int = 100) -> dict[str, int]:
    return {chore.name.removeprefix("retention_"): await chore.work(limit) for chore in kept.chores()}


async def count(sessions: Sessions) -> dict[str, int]:
    return {table.name: len(await sessions.store.real.page(table, None, 1_000)) for table in TABLES}


async def test_by_default_everything_is_kept(sessions: Sessions) -> None:
    assert retention(sessions).chores() == []


async def test_old_sessions_go_with_all_their_rows(sessions: Sessions) -> None:
    store = sessions.store.real
    for state in SessionState:
        old = a_session(id=f"old {state}", state=state)
        await store.create_session(old)
        await store.add_trail(one_of_each(old.id))
    recent = await sessions.begin("hello")
    await recent.wait_ended()
    running = await sessions.begin("hello", agent_id="held")
    await until(running, "delta")
    works = retention(sessions, messages_days=1)
    assert [await tidy(works, 1) for _ in range(3)] == [{"sessions": 1}, {"sessions": 1}, {"sessions": 0}]
    left = await store.page(SESSIONS, None, 10)
    assert {session.id for session in left} == {recent.session_id, running.session_id}
    found = await count(sessions)
    assert found["message_audit"] == found["summaries"] == 0 and found["usage"] >= 2


async def test_a_session_that_goes_on_meanwhile_stays(sessions: Sessions) -> None:
    store = sessions.store.real
    session = a_session()
    await store.create_session(session)
    real = store.idle_families
    hook = sessions.store

    async def idle_families(*args: object) -> object:
        found = await real(*args)  # type: ignore[arg-type]
        await run_exchanges(store, session, 1)
        return found

    hook.idle_families = idle_families  # type: ignore[attr-defined]
    await tidy(retention(sessions, messages_days=1))
    assert await store.get_session(session.id) is not None
    assert len(await store.messages_after(session.id, -1, 10)) == 2


async def test_a_family_lives_as_long_as_its_last_used_session(sessions: Sessions) -> None:
    store = sessions.store.real
    root = a_session()
    await store.create_session(root)
    await fork(store, root.id, 0, updated_at=EPOCH)
    young = await fork(store, root.id, 0, updated_at=store.now())
    works = retention(sessions, messages_days=1)
    assert await tidy(works) == {"sessions": 0}
    assert len(await store.family(root.id)) == 3
    await store.delete_session(young.id)
    assert await tidy(works) == {"sessions": 1}
    assert await store.page(SESSIONS, None, 10) == []


async def test_each_kind_has_its_own_time(sessions: Sessions) -> None:
    store = sessions.store.real
    now = store.now()
    recent = {"at": now, "day": now.date().isoformat()}
    await store.add_trail([*(a_usage(minute=minute) for minute in range(3)), a_usage(**recent)])
    await store.record_kpi(a_kpi())
    await store.record_kpi(a_kpi(started_at=now))
    session = a_session(updated_at=now)
    await store.create_session(session)
    await store.add_trail(one_of_each(session.id))
    before = await count(sessions)

    works = retention(sessions, usage_days=(now - EPOCH - timedelta(minutes=1, seconds=30)) / timedelta(days=1))
    assert await tidy(works) == {"usage": 3}
    assert await tidy(retention(sessions, kpi_days=1)) == {"kpi_records": 1}
    assert await count(sessions) == {**before, USAGE.name: 2, KPI_RECORDS.name: 1}
    deleted = await tidy(retention(sessions, audit_days=1, extractions_days=1, tool_calls_days=1))
    assert deleted == dict.fromkeys(
        ["message_audit", "prompts", "module_errors", "admin_reads", "extractions", "tool_calls"], 1
    )
    assert (await count(sessions))["summaries"] == 1


async def test_a_batch_is_no_larger_than_it_may_be(sessions: Sessions) -> None:
    await sessions.store.real.add_trail([a_usage(minute=minute) for minute in range(5)])
    works = retention(sessions, usage_days=1)
    assert [await tidy(works, 2) for _ in range(4)] == [{"usage": 2}, {"usage": 2}, {"usage": 1}, {"usage": 0}]


async def test_the_housekeeping_of_a_server_does_it(tmp_path: Path) -> None:
    kept = RetentionSettings(messages_days=1, usage_days=1)
    ending = SessionsSettings(inactive_h=None)
    async with open_sessions(tmp_path, {"echo": echoing_graph()}, retention=kept, ending=ending) as sessions:
        store = sessions.store.real
        await store.create_session(a_session(title="old"))
        await store.add_trail([a_usage(minute=minute) for minute in range(120)])
        await sessions.ask("hello")
        for chore in sessions.housekeeping.chores:
            await sessions.housekeeping.do(chore)
        assert "old" not in {session.title for session in await store.page(SESSIONS, None, 10)}
        assert all(usage.at > EPOCH + timedelta(days=1) for usage in await store.page(USAGE, None, 1_000))


async def test_usage_that_budgets_count_is_kept(sessions: Sessions) -> None:
    store, now = sessions.store.real, sessions.store.real.now()
    ages = {"old": 12, "counted": 8, "new": 1}
    await store.add_trail([replace(a_usage(), id=name, at=now - timedelta(days=age)) for name, age in ages.items()])
    assert await tidy(retention(sessions, now - timedelta(days=10), usage_days=7)) == {"usage": 1}
    assert {record.id for record in await store.page(USAGE, None, 10)} == {"counted", "new"}
    assert await tidy(retention(sessions, usage_days=7)) == {"usage": 1}
