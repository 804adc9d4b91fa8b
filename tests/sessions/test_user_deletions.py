"""All of a user's data go at once: from every table, from the memory of every instance, and from the files."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from services.mongodb import ON_MONGODB
from support.broadcasting import until as eventually
from support.held_agents import Hold, held_graph
from support.recorded_agents import echoing_graph
from support.sessions import PATIENCE_S, USER, Sessions, events_of, open_sessions, until
from support.test_agents import asking_graph

from agentic_backend.auth.user import User
from agentic_backend.errors import RateLimited, StoreUnavailable
from agentic_backend.kpi import Kpi
from agentic_backend.protocol.messages import utc_now
from agentic_backend.relay.redis.broadcast import redis_broadcast
from agentic_backend.relay.redis.messages import stream_of
from agentic_backend.sessions.upkeep import maintenance
from agentic_backend.stores.base import Store
from agentic_backend.stores.journal.file_journal import FileJournal
from agentic_backend.stores.journal.journaled_store import journaled
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.protocol.items import ItemBounds
from agentic_backend.stores.protocol.trail import TrailQuery, UsageRecord
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.stores.tables import OUTLIVE_USERS, SESSIONS, TABLES
from tests.stores.samples import a_kpi, a_session, an_item
from tests.stores.trail_samples import a_usage, one_of_each

BOB = User(id="bob", name="Bob")


def canary() -> str:
    """A word that nothing holds but what was given it: it is made anew for each look."""
    return "-".join(["quokka", "berry"])


def holders_of(text: str) -> list[str]:
    """What of the process holds a text or bytes with this text."""
    gc.collect()
    found = []
    for holder in gc.get_objects():
        for held in gc.get_referents(holder):
            # By its type: `isinstance` runs the code of objects that other tests have left, which may raise.
            kind = type(held)
            is_text = (issubclass(kind, str) and text in held) or (issubclass(kind, bytes) and text.encode() in held)
            if is_text and held is not text:
                found.append(f"{type(holder).__qualname__}: {held[:80]!r}")
    return found


async def talk(sessions: Sessions, word: str) -> list[str]:
    """Exchanges of two users, with `word` in Alice's, a question and a kept answer each; Alice's session ids."""
    session_ids = []
    for number in range(2):
        begun = await sessions.begin(f"{word} {number}", client_exchange_id=f"{word} {number}")
        await asyncio.wait_for(begun.wait_ended(), PATIENCE_S)
        session_ids.append(begun.session_id or "")
        await asyncio.wait_for((await sessions.begin("and Bob", user=BOB)).wait_ended(), PATIENCE_S)
    store = sessions.store.real
    for session_id in session_ids:
        await store.add_trail(one_of_each(session_id, USER.id, f"{word} in the trail"))
    await store.put_items([an_item("a", "k", f'"{word}"', owner=USER.id)], [], ItemBounds())
    await store.record_kpi(a_kpi(USER.id))
    return session_ids


async def rows(store: Store, user_id: str) -> dict[str, int]:
    owned = [table for table in TABLES if table.user is not None]
    return {table.name: len(await store.page(table, None, 1_000, user_id=user_id)) for table in owned}


async def named(store: Store, user_id: str) -> None:
    """Wait until the calls that named the user's two sessions are counted."""
    async with asyncio.timeout(PATIENCE_S):
        while (await rows(store, user_id))["usage"] < 2:
            await asyncio.sleep(0.01)


async def finish(sessions: Sessions) -> None:
    """End the deletion as the chore does once its minute is over."""
    for deletion in await sessions.store.real.deletions():
        await sessions.store.real.keep_deletion(replace(deletion, until=utc_now() - timedelta(hours=1)))
    await sessions.user_deletions.finish(100)
    await sessions.user_deletions.look()


def in_sqlite_files(directory: Path, word: str) -> int:
    return sum(file.read_bytes().count(word.encode()) for file in directory.glob("chat.sqlite3*"))


async def test_nothing_of_the_user_is_left_in_the_file_and_in_memory(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        await talk(sessions, canary())
        await named(sessions.store.real, BOB.id)
        theirs = await rows(sessions.store.real, BOB.id)
        assert await asyncio.to_thread(in_sqlite_files, tmp_path, canary()) > 0
        assert holders_of(canary())

        await sessions.user_deletions.delete(USER.id)
        assert set((await rows(sessions.store.real, USER.id)).values()) == {0}
        assert holders_of(canary()) == []

        await finish(sessions)
        assert await asyncio.to_thread(in_sqlite_files, tmp_path, canary()) == 0
        assert await rows(sessions.store.real, BOB.id) == theirs
        assert await sessions.store.real.deletions() == []
        assert (await sessions.ask("hello again"))[-1]["status"] == "ok"


@asynccontextmanager
async def two_instances(url: str, redis_url: str, directory: Path, hold: Hold) -> AsyncIterator[list[Sessions]]:
    async with AsyncExitStack() as stack:
        opened = []
        for name in ("here", "there"):
            broadcast = await stack.enter_async_context(
                redis_broadcast(redis_url, name, lambda _: None, Kpi().broadcast)
            )
            database = await MongoStore.open(url, timeout_s=10)
            opened.append(
                await stack.enter_async_context(
                    open_sessions(
                        directory,
                        {"echo": echoing_graph(), "held": held_graph(hold)},
                        database=database,
                        alone=False,
                        broadcast=broadcast,
                    )
                )
            )
        yield opened


def in_database(url: str, word: str) -> list[str]:
    """The collections of the database in which the word is."""
    with MongoClient[dict[str, Any]](url) as client:
        database = client.get_default_database()
        names = database.list_collection_names()
        return [name for name in names if any(word in repr(row) for row in database[name].find())]


@pytest.mark.redis
@pytest.mark.parametrize("mongodb_server", ON_MONGODB, indirect=True)
async def test_on_two_instances_nothing_of_the_user_is_left(
    mongodb_url: str, redis_url: str, tmp_path: Path, redis: Any
) -> None:
    hold = Hold()
    async with two_instances(mongodb_url, redis_url, tmp_path, hold) as (here, there):
        session_ids = await talk(there, canary())
        await named(here.store.real, BOB.id)
        theirs = await rows(here.store.real, BOB.id)
        running = await there.begin(f"{canary()} goes on", agent_id="held", session_id=session_ids[0])
        await until(running, "delta")
        exchange_id = running.exchange_id
        with redis.client() as client:
            assert await asyncio.to_thread(client.exists, stream_of(exchange_id)) == 1
        del running
        assert await asyncio.to_thread(in_database, mongodb_url, canary())

        await asyncio.wait_for(here.user_deletions.delete(USER.id), PATIENCE_S)
        await there.user_deletions.look()
        with pytest.raises(RateLimited, match="being deleted"):
            await there.begin("once more")
        await eventually(lambda: there.relay.running_count == 0)
        await finish(here)
        await there.user_deletions.look()

        assert await asyncio.to_thread(in_database, mongodb_url, canary()) == []
        assert set((await rows(here.store.real, USER.id)).values()) == {0}
        assert await rows(here.store.real, BOB.id) == theirs
        await eventually(lambda: not client_exists(redis, exchange_id))
        assert holders_of(canary()) == []
        assert (await there.ask("hello again"))[-1]["status"] == "ok"


def client_exists(redis: Any, exchange_id: str) -> bool:
    with redis.client() as client:
        return bool(client.exists(stream_of(exchange_id)))


async def test_what_runs_is_stopped_and_what_is_asked_meanwhile_is_refused(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold), "asking": asking_graph}) as sessions:
        waiting = await sessions.begin("hello", agent_id="asking")
        await until(waiting, "awaiting_human")
        reader = waiting.follow(0, lambda: None)
        log, query, other = [
            await sessions.begin("hello", user=user, mode=mode)
            for user, mode in ((USER, "chat"), (USER, "query"), (BOB, "chat"))
        ]
        for each in (log, query, other):
            await until(each, "delta")
        await asyncio.wait_for(sessions.user_deletions.delete(USER.id), PATIENCE_S)
        assert [(await events_of(each))[-1]["status"] for each in (log, query, waiting)] == ["stopped"] * 3
        for mode in ("chat", "query"):
            with pytest.raises(RateLimited) as refused:
                await sessions.begin("hello", mode=mode)
            assert refused.value.retry_after_s == 60
        waiting.unfollow(reader)
        assert other.final is None
        hold.released.set()
        assert (await events_of(other))[-1]["status"] == "ok"
        # The KPIs of the query may be written late.
        await finish(sessions)
        assert set((await rows(sessions.store.real, USER.id)).values()) == {0}


async def test_what_comes_late_is_deleted_at_the_end(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        await sessions.ask("hello")
        await sessions.user_deletions.delete(USER.id)
        store = sessions.store.real
        await store.add_trail([a_usage(USER.id), a_usage(BOB.id)])
        await store.create_session(a_session(USER.id))
        assert await sessions.user_deletions.finish(100) == 0
        await finish(sessions)
        assert set((await rows(store, USER.id)).values()) == {0}
        assert len((await store.trail(TrailQuery(UsageRecord, {"user_id": BOB.id}))).records) == 1


async def fail_at(sessions: Sessions, operation: str) -> None:
    with sessions.store.away(operation):
        with pytest.raises(StoreUnavailable):
            await sessions.user_deletions.delete(USER.id)


@pytest.mark.parametrize("operation", ["sessions_to_delete", "complete_session", "delete_session", "delete_user_rows"])
async def test_a_deletion_that_was_cut_short_is_ended_by_another_process(tmp_path: Path, operation: str) -> None:
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        await talk(sessions, canary())
        await fail_at(sessions, operation)
        assert any((await rows(sessions.store.real, USER.id)).values())
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        await sessions.user_deletions.look()
        with pytest.raises(RateLimited):
            await sessions.begin("hello")
        await finish(sessions)
        assert set((await rows(sessions.store.real, USER.id)).values()) == {0}
        assert await asyncio.to_thread(in_sqlite_files, tmp_path, canary()) == 0


async def test_a_deletion_can_be_repeated_and_goes_on_without_its_caller(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        await sessions.ask("hello")
        held = sessions.store.hold("delete_session")
        first = asyncio.create_task(sessions.user_deletions.delete(USER.id))
        await eventually(lambda: "delete_session" in sessions.store.waiting)
        second = asyncio.create_task(sessions.user_deletions.delete(USER.id))
        first.cancel()
        await asyncio.wait({first})
        held.set()
        await asyncio.wait_for(second, PATIENCE_S)
        await sessions.user_deletions.delete("nobody")
        assert set((await rows(sessions.store.real, USER.id)).values()) == {0}


async def test_a_file_that_cannot_be_packed_in_time_does_not_hold_up_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        await sessions.ask("hello")
        await sessions.user_deletions.delete(USER.id)
        with sessions.store.away("erase"):
            await finish(sessions)
        assert await sessions.store.real.deletions() == []
        assert "database file not packed in time" in caplog.text


async def test_the_file_is_packed_at_most_once_an_hour_and_nobody_waits_for_it(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        store = sessions.store.real
        await sessions.user_deletions.delete("somebody")
        await finish(sessions)
        await talk(sessions, canary())
        await sessions.user_deletions.delete(USER.id)
        await finish(sessions)
        assert [(each.user_id, each.is_over) for each in await store.deletions()] == [(USER.id, True)]
        assert await asyncio.to_thread(in_sqlite_files, tmp_path, canary()) > 0
        assert (await sessions.ask("hello again"))[-1]["status"] == "ok"
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        assert await sessions.user_deletions.finish(100) == 1
        assert await asyncio.to_thread(in_sqlite_files, tmp_path, canary()) == 0
        assert await sessions.store.real.deletions() == []
        assert len(await sessions.store.real.page(SESSIONS, None, 10, user_id=USER.id)) == 1


def test_what_outlives_a_user_holds_no_text() -> None:
    texts = {"original", "text", "data", "args", "result", "sections", "record", "parts", "value"}
    for table in OUTLIVE_USERS:
        assert texts.isdisjoint(table.names)


@pytest.mark.parametrize("mongodb_server", ON_MONGODB, indirect=True)
async def test_without_a_broadcast_other_instances_see_the_deletion_in_the_store(
    mongodb_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_LOOK_AT_DELETIONS_EVERY_S", 0.1)
    hold = Hold()
    async with AsyncExitStack() as stack:
        here, there = [
            await stack.enter_async_context(
                open_sessions(
                    tmp_path,
                    {"held": held_graph(hold)},
                    database=await MongoStore.open(mongodb_url, timeout_s=10),
                    alone=False,
                )
            )
            for _ in range(2)
        ]
        running = await there.begin("hello")
        await until(running, "delta")
        # Its owner's end comes, and this instance looks at deletions, before the deletion begins to wait for that end.
        found, looks = here.store.hold_answer("get_exchange", 2), there.store.hold("deletions")
        deletion = asyncio.create_task(here.user_deletions.delete(USER.id))
        await asyncio.wait_for(found.reached.wait(), PATIENCE_S)
        looks.set()
        assert (await events_of(running))[-1]["status"] == "stopped"
        await here.user_deletions.look()
        found.released.set()
        await asyncio.wait_for(deletion, PATIENCE_S)
        with pytest.raises(RateLimited):
            await there.begin("once more")
        await finish(here)
        assert set((await rows(here.store.real, USER.id)).values()) == {0}
        await eventually(lambda: not there.relay._leaving)
        hold.released.set()
        assert (await there.ask("hello again"))[-1]["status"] == "ok"


async def test_a_deletion_that_cannot_be_noted_ends_nothing(tmp_path: Path) -> None:
    """Before a session is deleted, what runs there is stopped, and the session is completed."""
    journal = FileJournal(tmp_path / "file" / "journal", 5)
    await asyncio.to_thread((tmp_path / "file").touch)
    database = journaled(await SqliteStore.open(tmp_path / "chat.sqlite3", timeout_s=5), journal)
    async with open_sessions(tmp_path, {"asks": asking_graph}, database=database) as sessions:
        waiting = await sessions.begin("may I?")
        await until(waiting, "awaiting_human")
        session_id = waiting.session_id or ""
        for deletion in (sessions.service.delete(USER, session_id), sessions.user_deletions.delete(USER.id)):
            with pytest.raises(StoreUnavailable, match="can't be noted"):
                await deletion
        session = await sessions.store.real.get_session(session_id)
        assert session is not None and session.state == "active" and session.active_exchange_id is not None
        assert await sessions.store.real.deletions() == []
