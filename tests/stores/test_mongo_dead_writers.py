"""Rows that writers left in MongoDB who died before they counted, and writers that dispute a rank."""

import asyncio
from collections.abc import Callable

import pytest

from agentic_backend.protocol.messages import utc_now
from agentic_backend.stores.base import Fence, FencedOut, SessionQuery
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo.documents import document
from agentic_backend.stores.records import place
from agentic_backend.stores.tables import MESSAGES
from tests.stores.conftest import OpenMongo
from tests.stores.faulty_database import at, make_faulty, once
from tests.stores.samples import a_session, an_end, answer, begin_new, fence_after, new_id, run_exchanges, texts


@pytest.fixture
async def store(open_mongo: OpenMongo) -> MongoStore:
    return await open_mongo()


async def leave_rows(store: MongoStore, fence: Fence, ranks: list[int], batch: str = "dead") -> None:
    """What a writer with this fence leaves that dies before it has counted its rows."""
    for rank in ranks:
        [row] = place(
            [answer(f"left {rank}")],
            session_id=fence.session_id,
            exchange_id=fence.exchange_id,
            next_rank=rank,
            at=utc_now(),
        )
        await store.driver.database["messages"].insert_one(document(MESSAGES, row, batch=batch))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def test_indexes_are_made_at_the_start_and_again(open_mongo: OpenMongo) -> None:
    for store in (await open_mongo(), await open_mongo()):
        made = {
            (name, tuple(key for key, _ in index["key"])): bool(index.get("unique"))
            for name in ("sessions", "exchanges", "messages", "session_states", "kpi_records")
            for index in (await store.driver.database[name].index_information()).values()
            if index["key"] != [("_id", 1)]
        }
        assert made == {
            ("sessions", ("user_id", "updated_at", "_id")): False,
            ("sessions", ("user_id", "next_rank")): False,
            ("sessions", ("updated_at", "_id")): False,
            ("sessions", ("state", "updated_at")): False,
            ("sessions", ("root_id", "updated_at")): False,
            ("sessions", ("user_id", "pinned", "updated_at", "_id")): False,
            ("sessions", ("user_id", "archived", "updated_at", "_id")): False,
            ("exchanges", ("asked_as",)): True,
            ("exchanges", ("holds",)): True,
            ("exchanges", ("session_id", "first_rank")): False,
            ("exchanges", ("status", "deadline")): False,
            ("exchanges", ("user_id", "status")): False,
            ("exchanges", ("status", "owner")): False,
            ("messages", ("session_id", "rank")): True,
            ("messages", ("exchange_id", "rank")): False,
            ("session_states", ("session_id", "rank")): False,
            ("kpi_records", ("started_at",)): False,
            ("kpi_records", ("user_id", "started_at")): False,
        }


@pytest.mark.parametrize("ranks", [[1], [2], [1, 2], [3], [1, 2, 3, 4, 5]])
async def test_rows_that_a_dead_writer_left_never_count_and_give_way(store: MongoStore, ranks: list[int]) -> None:
    fence = await begin_new(store)
    await leave_rows(store, fence, ranks)
    assert await texts(store, fence.session_id) == ["What is it?"]
    assert len(await store.exchange_messages(fence.exchange_id)) == 1
    assert (await store.list_sessions(SessionQuery("ann", text="left"))).sessions == []
    written = await store.append(fence, [answer("one"), answer("two")])
    await store.append(fence_after(written, fence.exchange_id), [answer("three")], an_end())
    assert await texts(store, fence.session_id) == ["What is it?", "one", "two", "three"]
    assert len(await store.last_exchanges(fence.session_id, 1)) == 4
    session = await store.get_session(fence.session_id)
    assert session is not None
    await run_exchanges(store, session, 2)
    assert len(await texts(store, fence.session_id)) == 8


async def test_rows_in_the_way_of_a_question_give_way(store: MongoStore) -> None:
    session = a_session()
    await store.create_session(session)
    await leave_rows(store, Fence(session.id, new_id(), 0), [0, 1])
    await run_exchanges(store, session, 1)
    assert await texts(store, session.id) == ["What is it?", "answer 0"]


async def test_a_writer_that_was_thought_dead_counts_nothing_any_more(open_mongo: OpenMongo) -> None:
    """It wakes up between its insert and its count, when another has written in its place."""
    slow, quick = await open_mongo(), await open_mongo()
    fence, awake = await begin_new(slow), asyncio.Event()
    make_faulty(slow, once("sessions", "find_one_and_update", awake))
    sleeper = asyncio.create_task(slow.append(fence, [answer("late")] * 3, an_end()))
    while await quick.driver.database["messages"].count_documents({}) < 4:
        await asyncio.sleep(0.01)
    written = await quick.append(fence, [answer("in time")])
    awake.set()
    with pytest.raises(FencedOut):
        await sleeper
    await quick.append(fence_after(written, fence.exchange_id), [answer("and on")], an_end())
    assert await texts(quick, fence.session_id) == ["What is it?", "in time", "and on"]
    assert await quick.driver.database["messages"].count_documents({}) == 3


async def test_a_writer_counts_no_rows_that_another_has_put_in_their_place(open_mongo: OpenMongo) -> None:
    """It wakes up when the other one has removed its rows and put its own there, and hasn't counted them yet."""
    slow, quick = await open_mongo(), await open_mongo()
    fence, awake, on = await begin_new(slow), asyncio.Event(), asyncio.Event()
    real = make_faulty(slow, once("sessions", "find_one_and_update", awake))
    sleeper = asyncio.create_task(slow.append(fence, [answer("slow 0"), answer("slow 1")]))
    while await real["messages"].count_documents({}) < 3:
        await asyncio.sleep(0.01)
    make_faulty(quick, once("sessions", "find_one_and_update", on))
    hurried = asyncio.create_task(quick.append(fence, [answer("quick 0")]))
    while await real["messages"].count_documents({}) != 2:
        await asyncio.sleep(0.01)
    awake.set()
    outcomes = [await asyncio.gather(sleeper, return_exceptions=True)]
    on.set()
    outcomes.append(await asyncio.gather(hurried, return_exceptions=True))
    assert sorted(type(outcome).__name__ for [outcome] in outcomes) == ["FencedOut", "Written"]
    counted = await texts(quick, fence.session_id)
    assert counted[1:] in (["slow 0", "slow 1"], ["quick 0"])
    assert await real["messages"].count_documents({}) == len(counted)


async def test_of_two_that_reserve_a_rank_the_later_one_counts(open_mongo: OpenMongo) -> None:
    """The former one wakes up when the rows that it would count have been removed."""
    slow, quick = await open_mongo(), await open_mongo()
    fence, awake, on = await begin_new(slow), asyncio.Event(), asyncio.Event()
    await leave_rows(slow, fence, [1])
    slow_fault, slow_came = at({("sessions", "find_one_and_update", 1): awake})
    quick_fault, quick_came = at({("sessions", "find_one_and_update", 1): on})
    real = make_faulty(slow, slow_fault)
    make_faulty(quick, quick_fault)
    sleeper = asyncio.create_task(slow.append(fence, [answer("slow 0"), answer("slow 1")]))
    await until(lambda: slow_came("sessions", "find_one_and_update", 1))
    hurried = asyncio.create_task(quick.append(fence, [answer("quick 0")]))
    await until(lambda: quick_came("sessions", "find_one_and_update", 1))
    awake.set()
    with pytest.raises(FencedOut):
        await sleeper
    on.set()
    await hurried
    assert await texts(quick, fence.session_id) == ["What is it?", "quick 0"]
    assert await real["messages"].count_documents({}) == 2


async def test_who_has_lost_its_reservation_does_not_take_it_back(open_mongo: OpenMongo) -> None:
    """Who has taken it may remove its rows at any time from then on, also once they would count."""
    slow, quick = await open_mongo(), await open_mongo()
    fence, first, again, late = await begin_new(slow), asyncio.Event(), asyncio.Event(), asyncio.Event()
    await leave_rows(slow, fence, [1])
    slow_fault, slow_came = at({("messages", "delete_many", 1): first, ("sessions", "update_one", 2): again})
    quick_fault, quick_came = at({("messages", "delete_many", 1): late})
    real = make_faulty(slow, slow_fault)
    sleeper = asyncio.create_task(slow.append(fence, [answer("slow 0"), answer("slow 1")]))
    await until(lambda: slow_came("messages", "delete_many", 1))
    await leave_rows(quick, fence, [2], batch="dead too")
    make_faulty(quick, quick_fault)
    first.set()
    await until(lambda: slow_came("sessions", "update_one", 2))
    hurried = asyncio.create_task(quick.append(fence, [answer("quick 0"), answer("quick 1")]))
    await until(lambda: quick_came("messages", "delete_many", 1))
    again.set()
    outcomes = await asyncio.gather(sleeper, return_exceptions=True)
    late.set()
    outcomes += await asyncio.gather(hurried, return_exceptions=True)
    assert [type(outcome).__name__ for outcome in outcomes] == ["FencedOut", "Written"]
    assert await texts(quick, fence.session_id) == ["What is it?", "quick 0", "quick 1"]
    assert await real["messages"].count_documents({}) == 3
