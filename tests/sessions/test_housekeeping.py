"""Housekeeping: its chores on several instances, when they fail, and while others wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.recorded_agents import echoing_graph, metric
from support.sessions import Sessions, open_sessions

from agentic_backend.errors import StoreUnavailable
from agentic_backend.exchange.instance import Instance
from agentic_backend.sessions.upkeep.housekeeping import Chore, Housekeeping
from agentic_backend.stores.mongo import MongoStore


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Sessions]:
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        yield sessions


def housekeeping(sessions: Sessions, *chores: Chore, batch: int = 2, every_s: float = 0.01) -> Housekeeping:
    store = sessions.store.as_store
    return Housekeeping(Instance(15), store, sessions.kpi, *chores, every_s=every_s, batch=batch)


async def test_a_chore_goes_on_until_a_batch_is_not_full(alone: Sessions) -> None:
    left, batches = 5, []

    async def work(limit: int) -> int:
        nonlocal left
        done = min(limit, left)
        left -= done
        batches.append(done)
        return done

    await housekeeping(alone).do(Chore("tidy", work))
    assert batches == [2, 2, 1]
    assert metric(alone.kpi, "chat_housekeeping_done_total", chore="tidy") == 5
    assert metric(alone.kpi, "chat_housekeeping_runs_total", chore="tidy", outcome="ok") == 3


@pytest.mark.parametrize("error", [StoreUnavailable(), ValueError("a bug")])
async def test_a_chore_that_fails_stops_no_other_one_and_is_tried_again(alone: Sessions, error: Exception) -> None:
    tried, other = 0, asyncio.Event()

    async def fails(limit: int) -> int:
        nonlocal tried
        tried += 1
        raise error

    async def works(limit: int) -> int:
        if tried > 1:
            other.set()
        return 0

    keeping = asyncio.create_task(housekeeping(alone, Chore("fails", fails), Chore("works", works)).run())
    async with asyncio.timeout(10):
        await other.wait()
    keeping.cancel()
    await asyncio.wait({keeping})
    assert metric(alone.kpi, "chat_housekeeping_runs_total", chore="fails", outcome="failed") > 1


async def test_a_chore_without_end_leaves_the_others_their_turn(
    alone: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentic_backend.sessions.upkeep.housekeeping._BETWEEN_BATCHES_S", 0)
    batches = 0

    async def endless(limit: int) -> int:
        nonlocal batches
        batches += 1
        return limit

    async with asyncio.timeout(10):
        await housekeeping(alone).do(Chore("endless", endless))
    assert batches == 20


@pytest.mark.parametrize("server", ON_MONGODB)
async def test_of_two_instances_one_does_a_chore(server: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    began, released, times = asyncio.Event(), asyncio.Event(), 0

    async def work(limit: int) -> int:
        nonlocal times
        times += 1
        began.set()
        await released.wait()
        return 0

    async with AsyncExitStack() as opened:
        url = await opened.enter_async_context(fresh_database(server_url(server, request)))
        instances = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            database = await MongoStore.open(url, timeout_s=20)
            sessions = open_sessions(tmp_path / name, {"echo": echoing_graph()}, database=database, alone=False)
            instances.append(await opened.enter_async_context(sessions))
            # Its tasks start theirs, which the next one must not take for its own.
            await asyncio.sleep(0.1)
        chore = Chore("tidy", work)
        first = asyncio.create_task(housekeeping(instances[0]).do(chore))
        await began.wait()
        await housekeeping(instances[1]).do(chore)
        assert times == 1
        released.set()
        await first
