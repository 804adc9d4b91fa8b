"""Several processes on one SQLite file: each shows that it lives, chores have one owner, and the dead are forgotten."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agentic_backend.stores import heartbeat
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.stores.sqlite import instances as sqlite_instances
from agentic_backend.stores.sqlite.instances import forget_instances

EVERY_S, PATIENCE_S = 0.05, 30


@pytest.fixture(autouse=True)
def in_no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat that ends removes its row, however busy the machine is."""
    monkeypatch.setattr(sqlite_instances, "_REMOVE_S", float(PATIENCE_S))
    monkeypatch.setattr(heartbeat, "_END_S", float(PATIENCE_S))


@pytest.fixture
async def workers(tmp_path: Path) -> AsyncIterator[tuple[SqliteStore, SqliteStore]]:
    """Two stores on one file, opened at once."""
    async with AsyncExitStack() as opened:

        async def worker() -> SqliteStore:
            store = await SqliteStore.open(tmp_path / "store.db", timeout_s=10, shared=True)
            opened.push_async_callback(store.aclose)
            return store

        one, two = await asyncio.gather(worker(), worker())
        yield one, two


async def until(condition: Callable[[int], bool], store: SqliteStore) -> int:
    """The counter of the instance `one`, once it is as wanted; 0 while there is none."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition(beat := (await store.beats()).get("one", 0)):
            await asyncio.sleep(EVERY_S)
    return beat


async def test_others_see_an_instance_from_its_first_moment_to_its_last(
    workers: tuple[SqliteStore, SqliteStore],
) -> None:
    here, there = workers
    async with here.heartbeat("one", EVERY_S):
        assert (await there.beats())["one"] >= 1
        first = await until(lambda beat: beat > 1, there)
        await until(lambda beat: beat > first, there)
    await until(lambda beat: beat == 0, there)
    # It says that it ends in its last line.
    for thread in threading.enumerate():
        if thread.name == "heartbeat one":
            await asyncio.to_thread(thread.join, PATIENCE_S)
            assert not thread.is_alive()


async def test_a_blocked_event_loop_does_not_stop_its_beats(workers: tuple[SqliteStore, SqliteStore]) -> None:
    here, there = workers
    async with here.heartbeat("one", EVERY_S):
        before = await until(bool, there)
        until_s = time.monotonic() + 2
        while time.monotonic() < until_s:
            pass
        assert (await there.beats())["one"] > before + 5


async def test_who_was_forgotten_comes_back(workers: tuple[SqliteStore, SqliteStore]) -> None:
    here, there = workers
    async with here.heartbeat("one", 3600):
        await there.forget_instance("one", 7)
        assert await there.beats() == {"one": 1}, "it has moved since"
        await there.forget_instance("one", 1)
        assert await there.beats() == {}
    async with here.heartbeat("one", EVERY_S):
        await there.forget_instance("one", (await there.beats())["one"])
        await until(bool, there)


async def test_one_of_them_has_a_chore_until_its_claim_ends(workers: tuple[SqliteStore, SqliteStore]) -> None:
    one, two = workers
    assert await one.claim_chore("tidy", "one", 60)
    assert not await two.claim_chore("tidy", "two", 60)
    assert await two.claim_chore("other", "two", 60)
    assert await one.claim_chore("tidy", "one", 0)
    await asyncio.sleep(0.01)
    assert await two.claim_chore("tidy", "two", 60)
    assert not await one.claim_chore("tidy", "one", 60)


async def test_a_server_that_starts_forgets_the_workers_before_it(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    await asyncio.to_thread(forget_instances, file, 5)
    store = await SqliteStore.open(file, timeout_s=10, shared=True)
    async with store.heartbeat("one", 3600):
        assert await store.claim_chore("tidy", "one", 60)
        await asyncio.to_thread(forget_instances, file, 5)
        assert await store.beats() == {}
        assert await store.claim_chore("tidy", "two", 60)
    await store.aclose()


async def test_a_file_of_one_process_has_no_instances(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db", timeout_s=10)
    async with store.heartbeat("one", EVERY_S):
        assert await store.beats() == {}
        assert await store.claim_chore("tidy", "one", 60) and await store.claim_chore("tidy", "two", 60)
    await store.aclose()


async def test_workers_that_make_a_new_file_at_once_all_open_it(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / f"{number}.db"
        opened = await asyncio.gather(*(SqliteStore.open(path, timeout_s=10, shared=True) for _ in range(4)))
        await asyncio.gather(*(store.aclose() for store in opened))
