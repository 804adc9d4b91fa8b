"""Asks, ends and deletions that broke off half way in MongoDB, and what is made of them."""

import asyncio
import random
from contextlib import suppress

import pytest
from support.further_cases import further

from agentic_backend.errors import SessionBusy, StoreUnavailable
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.base import Fence, FencedOut, KeptState, SessionChange, SessionQuery
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo.documents import state_document
from agentic_backend.stores.mongo.sessions import settling
from tests.stores.conftest import OpenMongo
from tests.stores.faulty_database import always, make_faulty, once
from tests.stores.samples import (
    a_branch,
    a_kpi,
    a_session,
    an_end,
    an_exchange,
    answer,
    as_kpis,
    begin,
    begin_new,
    fork,
    kpis_of,
    new_id,
    question,
    run_exchanges,
    texts,
)


@pytest.fixture
async def store(open_mongo: OpenMongo) -> MongoStore:
    return await open_mongo()


async def test_an_end_that_broke_off_after_it_counted_is_an_end(open_mongo: OpenMongo) -> None:
    store, other = await open_mongo(), await open_mongo()
    fence = await begin_new(store, client_exchange_id="mine")
    kpi = a_kpi(exchange_id=fence.exchange_id)
    real = make_faulty(store, always("kpi_records", "bulk_write", "refused"))
    await store.append(fence, [answer()], an_end(kpi=kpi, session_state=b"state"))
    await store.finishing.all()
    stored = await real["exchanges"].find_one({"_id": fence.exchange_id})
    assert stored is not None and stored["status"] == "running"

    async def check_ended(store: MongoStore) -> None:
        for record in (await store.get_exchange(fence.exchange_id), await store.find_exchange("ann", "mine")):
            assert record is not None and (record.status, record.last_seq) == (ExchangeStatus.OK, 9)
        assert len(await store.last_exchanges(fence.session_id, 1)) == 2
        assert await store.session_state(fence.session_id) == b"state"

    await check_ended(store)
    await check_ended(other)
    assert await kpis_of(other, "ann") == []
    assert await other.running_exchanges() == []
    assert await kpis_of(other, "ann") == as_kpis(kpi)
    stored = await real["exchanges"].find_one({"_id": fence.exchange_id})
    assert stored is not None and (stored["status"], stored["holds"]) == ("ok", fence.exchange_id)
    await check_ended(other)


async def test_an_end_that_broke_off_is_finished_when_the_database_is_back(store: MongoStore) -> None:
    fence = await begin_new(store)
    kpi = a_kpi(exchange_id=fence.exchange_id)
    real = make_faulty(store, always("exchanges", "bulk_write", "refused"))
    await store.append(fence, [answer()], an_end(kpi=kpi))
    await store.finishing.all()
    assert await store.statuses([fence.exchange_id]) == {fence.exchange_id: ExchangeStatus.OK}
    assert (await real["exchanges"].find_one({"_id": fence.exchange_id}))["status"] == "running"
    store.driver.database = real
    async with asyncio.timeout(10):
        while (await real["exchanges"].find_one({"_id": fence.exchange_id}))["status"] == "running":
            await asyncio.sleep(0.01)
    assert await kpis_of(store, "ann") == as_kpis(kpi)


async def test_what_is_not_finished_yet_is_finished_before_the_store_closes(open_mongo: OpenMongo) -> None:
    store, other = await open_mongo(), await open_mongo()
    fence = await begin_new(store)
    await store.append(fence, [answer()], an_end(kpi=a_kpi(exchange_id=fence.exchange_id)))
    await store.aclose()
    found = await other.driver.database["exchanges"].find_one({"_id": fence.exchange_id})
    assert found is not None and found["status"] == "ok"


async def test_an_end_that_broke_off_keeps_nobody_from_asking(store: MongoStore) -> None:
    fence = await begin_new(store)
    make_faulty(store, once("exchanges", "bulk_write", "refused"))
    await store.append(fence, [answer()], an_end(kpi=a_kpi(exchange_id=fence.exchange_id)))
    session = await store.get_session(fence.session_id)
    assert session is not None
    await run_exchanges(store, session, 1)
    assert len(await kpis_of(store, "ann")) == 1
    assert await store.running_exchanges() == []


@pytest.mark.parametrize("new_session", [True, False])
@pytest.mark.parametrize("collection", ["messages", "sessions"])
async def test_an_ask_that_broke_off_before_it_counted_can_be_sent_again(
    store: MongoStore, new_session: bool, collection: str
) -> None:
    session = a_session()
    if not new_session:
        await store.create_session(session)
    method = "insert_many" if collection == "messages" else "insert_one" if new_session else "find_one_and_update"
    exchange = an_exchange(session, client_exchange_id="mine")
    real = make_faulty(store, once(collection, method, "refused"))
    with pytest.raises(StoreUnavailable):
        await store.begin_exchange(exchange, question(), session if new_session else None)
    assert await store.get_exchange(exchange.id) is None
    assert await store.find_exchange("ann", "mine") is None
    assert await store.messages_after(session.id, -1, 10) == []

    again = a_session() if new_session else session
    repeated = an_exchange(again, client_exchange_id="mine")
    await store.begin_exchange(repeated, question("Again?"), again if new_session else None)
    assert await texts(store, again.id) == ["Again?"]
    assert [record.id for record in await store.running_exchanges()] == [repeated.id]
    assert await real["exchanges"].count_documents({}) == await real["messages"].count_documents({}) == 1


async def test_an_ask_whose_answer_was_lost_is_not_begun_twice(store: MongoStore) -> None:
    session = a_session()
    await store.create_session(session)
    exchange = an_exchange(session)
    make_faulty(store, once("sessions", "find_one_and_update", "unheard"))
    with pytest.raises(StoreUnavailable):
        await store.begin_exchange(exchange, question())
    with pytest.raises(SessionBusy):
        await store.begin_exchange(an_exchange(session), question())
    assert [record.id for record in await store.running_exchanges()] == [exchange.id]


async def test_a_session_is_not_busy_with_an_exchange_that_is_nowhere(store: MongoStore) -> None:
    session = a_session(active_exchange_id="nowhere")
    await store.create_session(session)
    await run_exchanges(store, session, 1)
    assert await texts(store, session.id) == ["What is it?", "answer 0"]


@pytest.mark.parametrize("collection", ["messages", "exchanges", "sessions"])
async def test_a_deletion_that_broke_off_is_finished_at_the_next_start(open_mongo: OpenMongo, collection: str) -> None:
    store = await open_mongo()
    fence = await begin_new(store)
    await store.append(fence, [answer("secret")], an_end(session_state=b"state"))
    method = "delete_one" if collection == "sessions" else "delete_many"
    real = make_faulty(store, once(collection, method, "refused"))
    with pytest.raises(StoreUnavailable):
        await store.delete_session(fence.session_id)
    assert await store.get_session(fence.session_id) is None
    assert (await store.list_sessions(SessionQuery("ann"))).sessions == []
    assert await store.messages_after(fence.session_id, -1, 10) == []
    assert await store.change_session(fence.session_id, SessionChange(title="Title")) == []
    await open_mongo()
    for name in ("sessions", "exchanges", "messages", "session_states"):
        assert await real[name].count_documents({}) == 0


async def test_of_what_is_about_to_go_with_its_root_nothing_is_forked(open_mongo: OpenMongo) -> None:
    """The deletion of the root has looked for what descends from it, and has not come to that yet."""
    store = await open_mongo()
    session = a_session()
    await store.create_session(session)
    await run_exchanges(store, session, 1)
    branch = await fork(store, session.id, 2)
    await run_exchanges(store, branch, 1)
    before = await store.get_session(branch.id)
    assert before is not None
    real = make_faulty(store, once("sessions", "update_many", "refused"))
    with pytest.raises(StoreUnavailable):
        await store.delete_session(session.id)
    twig = a_branch(before, 4)
    assert await store.fork_session(twig, None) is None
    assert await real["sessions"].find_one({"_id": twig.id}) is None


async def test_only_states_of_counted_ends_are_kept(store: MongoStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "STATES_KEPT", 2)
    states, session = store.driver.database["session_states"], a_session()
    await store.create_session(session)
    fence = await begin(store, session)
    # What a writer leaves that dies before its end counts.
    dead = KeptState(fence.exchange_id, 2, b"lost")
    await states.insert_one(state_document(session.id, dead, counts=False))
    await store.append(fence, [answer()], an_end())
    assert await store.session_state(session.id) is None
    monkeypatch.setattr(settling, "FORGET_EVERY", 1)
    for state in (b"one", b"two", None, b"three", None):
        await store.append(await begin(store, session), [answer()], an_end(session_state=state))
    await store.finishing.all()
    assert await states.count_documents({}) == 2
    with pytest.raises(FencedOut):
        await store.append(Fence(session.id, new_id(), 10), [answer()], an_end(session_state=b"lost"))
    assert await states.count_documents({}) == 2
    assert await store.session_state(session.id) == b"three"


async def test_a_state_counts_from_the_moment_at_which_the_end_does(open_mongo: OpenMongo) -> None:
    store = await open_mongo()
    fence = await begin_new(store)
    make_faulty(store, always("session_states", "bulk_write", "refused"))
    await store.append(fence, [answer()], an_end(session_state=b"state"))
    await store.finishing.all()
    store = await open_mongo()
    assert await store.session_state(fence.session_id) == b"state"
    session = await store.get_session(fence.session_id)
    assert session is not None
    await store.append(await begin(store, session), [answer()], an_end(session_state=b"another"))
    assert await store.session_state(fence.session_id, session.next_rank) == b"state"


async def test_the_state_of_an_older_schema_is_read(store: MongoStore) -> None:
    fence = await begin_new(store)
    await store.append(fence, [answer()], an_end(session_state=b"state"))
    await store.finishing.all()
    await store.driver.database["session_states"].update_many({}, {"$unset": {"counts": 1, "exchange_id": 1}})
    assert await store.session_state(fence.session_id) == b"state"


@pytest.mark.parametrize("seed", [*range(4), *map(further, range(4, 12))])
async def test_whatever_breaks_off_what_was_reported_is_there_and_whole(open_mongo: OpenMongo, seed: int) -> None:
    """Writers of two instances dispute each rank, while a third of their round trips goes wrong in some way."""
    chance = random.Random(seed)
    sound, stores = await open_mongo(), [await open_mongo(), await open_mongo()]
    for store in stores:
        make_faulty(store, lambda *_: chance.choices(["fine", "slow", "refused", "unheard"], [6, 2, 1, 1])[0])
    session = a_session()
    await sound.create_session(session)
    reported: list[str] = []

    async def write(store: MongoStore, fence: Fence, name: str, ends: bool) -> None:
        batch = [f"{name} {number}" for number in range(chance.randint(0, 3))]
        with suppress(FencedOut, StoreUnavailable):
            await store.append(fence, [answer(text) for text in batch], an_end() if ends else None)
            reported.extend(batch)

    for turn in range(8):
        with suppress(StoreUnavailable):
            await stores[turn % 2].begin_exchange(an_exchange(session), question(f"question {turn}"))
        for attempt in range(3):
            current = await sound.get_session(session.id)
            assert current is not None
            if current.active_exchange_id is None:
                break
            fence = Fence(session.id, current.active_exchange_id, current.next_rank)
            await asyncio.gather(
                *(write(store, fence, f"{turn}.{attempt}.{index}", attempt == 2) for index, store in enumerate(stores))
            )
        for record in await sound.running_exchanges():
            current = await sound.get_session(session.id)
            assert current is not None and current.active_exchange_id == record.id
            await sound.append(Fence(session.id, record.id, current.next_rank), [], an_end())

    stored = await texts(sound, session.id)
    session = await sound.get_session(session.id) or session
    assert session.next_rank == session.message_count == len(stored) == len(set(stored))
    assert set(reported) <= set(stored)
    batches = [text.rpartition(" ")[0] for text in stored if not text.startswith("question")]
    for name in set(batches):
        assert [text for text in stored if text.startswith(f"{name} ")] == [
            f"{name} {number}" for number in range(batches.count(name))
        ]
    assert len([batch for i, batch in enumerate(batches) if batch != batches[i - 1]]) <= len(set(batches)) + 1
    await run_exchanges(sound, session, 1)
    assert len(await sound.last_exchanges(session.id, 100)) == len(stored) + 2
