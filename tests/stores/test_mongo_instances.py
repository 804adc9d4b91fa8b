"""The heartbeat of an instance on MongoDB: moved by a thread, for as long as there is somebody to move it for."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from services.mongo_java import MongoJava
from services.mongodb import fresh_database
from support.tcp_line import TcpLine

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores import heartbeat
from agentic_backend.stores.mongo import MongoStore, instances

OpenAt = Callable[[int], Awaitable[MongoStore]]
EVERY_S, TIMEOUT_S, PATIENCE_S = 0.05, 10, 20
pytestmark = [pytest.mark.mongodb, pytest.mark.timeout(300)]


@pytest.fixture
async def open_at(mongo_java: MongoJava, line: TcpLine) -> AsyncIterator[OpenAt]:
    """Opens a store on the server at this port; the line outlives it."""
    async with AsyncExitStack() as opened:
        url = await opened.enter_async_context(fresh_database(f"mongodb://127.0.0.1:{mongo_java.port}/"))

        async def open_(port: int) -> MongoStore:
            store = await MongoStore.open(url.replace(str(mongo_java.port), str(port)), timeout_s=TIMEOUT_S)
            opened.push_async_callback(store.aclose)
            return store

        yield open_


@pytest.fixture
async def store(open_at: OpenAt, mongo_java: MongoJava) -> MongoStore:
    return await open_at(mongo_java.port)


@pytest.fixture
async def distant(open_at: OpenAt, line: TcpLine) -> MongoStore:
    """A store behind the line, which the test may hold."""
    return await open_at(line.port)


async def until(condition: Callable[[int], bool], store: MongoStore) -> int:
    """The counter of the instance `one`, once it is as wanted; 0 while there is none."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition(beat := (await beats(store)).get("one", 0)):
            await asyncio.sleep(EVERY_S)
    return beat


async def beats(store: MongoStore) -> dict[str, int]:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await store.beats()
            except StoreUnavailable:
                await asyncio.sleep(EVERY_S)


async def no_thread() -> None:
    """Wait until its thread has ended, which is a moment after it has said so."""
    async with asyncio.timeout(PATIENCE_S):
        while threads():
            await asyncio.sleep(EVERY_S)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "heartbeat one"]


@pytest.fixture
def in_no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat that ends removes its document, however busy the machine is."""
    monkeypatch.setattr(instances, "_REMOVE_S", float(PATIENCE_S))
    monkeypatch.setattr(heartbeat, "_END_S", float(PATIENCE_S))


def block(for_s: float) -> None:
    """Keep the event loop busy, as code does that computes."""
    until_s = time.monotonic() + for_s
    while time.monotonic() < until_s:
        pass


@pytest.mark.usefixtures("in_no_hurry")
async def test_it_is_there_from_the_first_moment_to_the_last(store: MongoStore) -> None:
    async with store.heartbeat("one", EVERY_S):
        assert (await store.beats())["one"] >= 1
        first = await until(lambda beat: beat > 1, store)
        await until(lambda beat: beat > first, store)
        assert threads() == ["heartbeat one"]
    assert await store.beats() == {}
    await no_thread()


async def test_a_blocked_event_loop_does_not_stop_it(store: MongoStore) -> None:
    async with store.heartbeat("one", EVERY_S):
        before = await until(bool, store)
        block(2)
        # Whatever is behind in the loop itself, it has moved much meanwhile.
        assert (await store.beats())["one"] > before + 5


async def test_a_loop_that_is_blocked_for_good_stops_it(store: MongoStore, caplog: pytest.LogCaptureFixture) -> None:
    async with store.heartbeat("one", EVERY_S, loop_patience_s=1.5):
        before = await until(bool, store)
        began = time.monotonic()
        block(4)
        blocked_s = time.monotonic() - began
        told = [vars(record)["reason"] for record in caplog.records if record.message == "heartbeat fails"]
        assert told == ["the event loop is blocked"]
        beat = (await store.beats())["one"]
        await until(lambda later: later > beat, store)
    assert beat - before < 2 / 3 * blocked_s / EVERY_S


async def test_it_goes_on_after_an_outage(distant: MongoStore, line: TcpLine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "agentic_backend")
    async with distant.heartbeat("one", EVERY_S):
        before = await until(bool, distant)
        await line.hold()
        async with asyncio.timeout(PATIENCE_S):
            while "heartbeat fails" not in caplog.messages:
                await asyncio.sleep(EVERY_S)
        line.release()
        await until(lambda beat: beat > before + 1, distant)
        async with asyncio.timeout(PATIENCE_S):
            while "heartbeat works again" not in caplog.messages:
                await asyncio.sleep(EVERY_S)
    [failure] = [record for record in caplog.records if record.message == "heartbeat fails"]
    assert str(line.port) not in vars(failure)["reason"], "told once, without a word of the URL"


async def test_it_ends_in_time_while_the_database_is_away(distant: MongoStore, line: TcpLine) -> None:
    async with asyncio.timeout(PATIENCE_S), distant.heartbeat("one", EVERY_S):
        await until(bool, distant)
        await line.hold()
    line.release()
    await no_thread()


@pytest.mark.usefixtures("in_no_hurry")
async def test_who_was_forgotten_comes_back(store: MongoStore) -> None:
    async with store.heartbeat("one", EVERY_S):
        beat = await until(lambda beat: beat > 3, store)
        await store.forget_instance("one", beat - 2)
        assert (await store.beats())["one"] >= beat, "it has moved since"
    async with store.heartbeat("one", 3600):
        await store.forget_instance("one", 1)
        assert await store.beats() == {}
    async with store.heartbeat("one", EVERY_S):
        await store.forget_instance("one", (await store.beats())["one"])
        await until(bool, store)
