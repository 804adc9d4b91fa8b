"""What becomes of claims, pauses and checkpoints in MongoDB whose writers died half way."""

import asyncio
from dataclasses import replace

import pytest

from agentic_backend.errors import ApprovalNotFound, Internal, StoreUnavailable
from agentic_backend.protocol.messages import ExchangeStatus, MessageMetadata
from agentic_backend.protocol.seq import next_epoch
from agentic_backend.stores.base import Checkpoint, FencedOut
from agentic_backend.stores.mongo import MongoStore
from tests.stores.conftest import OpenMongo
from tests.stores.faulty_database import always, make_faulty, once
from tests.stores.samples import (
    a_checkpoint,
    a_decision,
    a_partial,
    a_pause,
    a_session,
    an_end,
    an_exchange,
    answer,
    begin,
    begin_new,
    begin_waiting,
    fence_after,
    question,
    stored,
)


@pytest.fixture
async def store(open_mongo: OpenMongo) -> MongoStore:
    return await open_mongo()


async def test_a_claim_that_broke_off_can_be_recovered(store: MongoStore) -> None:
    """The exchange is the new owner's, while the session still names the one before."""
    waiting = await begin_waiting(store)
    make_faulty(store, once("sessions", "update_one", "refused"))
    with pytest.raises(StoreUnavailable):
        await store.decide(waiting, [a_decision()], "two")
    with pytest.raises(ApprovalNotFound):
        await store.decide(waiting, [a_decision()], "three")
    [overdue] = await store.running_exchanges()
    assert (overdue.owner, overdue.decisions) == ("two", [a_decision()])
    fence = await store.fence(waiting.session_id)
    assert fence is not None and fence.owner == "one"
    await store.append(fence, [], an_end(ExchangeStatus.INTERRUPTED))
    assert await store.running_exchanges() == []
    assert waiting.checkpoint is not None
    assert await store.checkpoint(waiting.id) == Checkpoint(waiting.checkpoint, b"paused")


async def test_a_claim_that_comes_too_late_is_refused(open_mongo: OpenMongo) -> None:
    """Its owner was taken for dead before the session named it, and another has ended the exchange."""
    slow, quick = await open_mongo(), await open_mongo()
    waiting, awake = await begin_waiting(slow), asyncio.Event()
    make_faulty(slow, once("sessions", "update_one", awake))
    sleeper = asyncio.create_task(slow.decide(waiting, [a_decision()], "two"))
    while not (overdue := await quick.running_exchanges()):
        await asyncio.sleep(0.01)
    fence = await quick.fence(overdue[0].session_id)
    assert fence is not None
    await quick.append(fence, [], an_end(ExchangeStatus.INTERRUPTED))
    awake.set()
    with pytest.raises(ApprovalNotFound):
        await sleeper
    assert await quick.fence(waiting.session_id) is None


async def test_what_waits_no_more_is_not_decided_though_its_document_says_so(store: MongoStore) -> None:
    waiting = await begin_waiting(store)
    fence = await store.fence(waiting.session_id)
    assert fence is not None
    make_faulty(store, always("exchanges", "bulk_write", "refused"))
    await store.append(fence, [], an_end(ExchangeStatus.STOPPED))
    await store.finishing.all()
    with pytest.raises(ApprovalNotFound):
        await store.decide(waiting, [a_decision()], "two")
    assert await store.checkpoint(waiting.id) is None


async def test_an_end_without_state_leaves_none_though_the_document_has_one(store: MongoStore) -> None:
    fence = await begin_new(store, owner="one")
    written = await store.append(fence, [answer()], checkpoint=a_checkpoint(b"before"))
    make_faulty(store, always("exchanges", "bulk_write", "refused"))
    last = fence_after(written, fence.exchange_id, "one")
    await store.append(last, [answer()], an_end(ExchangeStatus.INTERRUPTED), a_checkpoint(None))
    await store.finishing.all()
    assert await store.checkpoint(fence.exchange_id) is None
    assert not await store.can_go_on(fence.exchange_id)


async def test_a_checkpoint_whose_write_broke_off_leaves_the_one_before(store: MongoStore) -> None:
    fence, first = await begin_new(store, owner="one"), a_checkpoint(b"first")
    fence = fence_after(await store.append(fence, [answer()], checkpoint=first), fence.exchange_id, "one")
    make_faulty(store, once("exchanges", "update_one", "refused"))
    with pytest.raises(StoreUnavailable):
        await store.append(fence, [answer("more")], checkpoint=a_checkpoint(b"second"))
    assert len(await store.exchange_messages(fence.exchange_id)) == 3
    assert await store.checkpoint(fence.exchange_id) == first


@pytest.mark.parametrize("owner", ["one", None])
async def test_a_checkpoint_that_comes_after_the_end_is_not_kept(open_mongo: OpenMongo, owner: str | None) -> None:
    """Its messages counted in time; until it is written another has ended the exchange, and the session has gone on."""
    slow, quick = await open_mongo(), await open_mongo()
    session, awake = a_session(), asyncio.Event()
    await slow.create_session(session)
    fence = await begin(slow, session, owner=owner)
    make_faulty(slow, once("exchanges", "update_one", awake))
    sleeper = asyncio.create_task(slow.append(fence, [answer()], checkpoint=a_checkpoint(b"late")))
    while len(await quick.exchange_messages(fence.exchange_id)) < 2:
        await asyncio.sleep(0.01)
    found = await quick.fence(session.id)
    assert found is not None
    last = a_checkpoint(b"drained")
    await quick.append(found, [], an_end(ExchangeStatus.INTERRUPTED), last)
    awake.set()
    await sleeper
    assert await quick.checkpoint(fence.exchange_id) == last
    after = await begin(quick, session, owner="two")
    assert await quick.checkpoint(fence.exchange_id) is None
    assert (await stored(quick, after.exchange_id)).status is ExchangeStatus.RUNNING


async def test_a_checkpoint_that_comes_after_a_new_claim_is_not_kept(open_mongo: OpenMongo) -> None:
    """What its writer had is behind what the exchange waited with, and what was decided since."""
    slow, quick = await open_mongo(), await open_mongo()
    fence, awake = await begin_new(slow, owner="one"), asyncio.Event()
    make_faulty(slow, once("exchanges", "update_one", awake))
    sleeper = asyncio.create_task(slow.append(fence, [answer()], checkpoint=a_checkpoint(b"late")))
    while len(await quick.exchange_messages(fence.exchange_id)) < 2:
        await asyncio.sleep(0.01)
    found = await quick.fence(fence.session_id)
    assert found is not None
    await quick.set_waiting(found, a_pause())
    await quick.decide(await stored(quick, fence.exchange_id), [a_decision()], "two")
    awake.set()
    await sleeper
    kept = await quick.checkpoint(fence.exchange_id)
    assert kept is not None and kept.state == b"paused"


async def test_a_checkpoint_of_what_was_deleted_brings_nothing_back(open_mongo: OpenMongo) -> None:
    slow, quick = await open_mongo(), await open_mongo()
    fence, awake = await begin_new(slow, owner="one"), asyncio.Event()
    real = make_faulty(slow, once("exchanges", "update_one", awake))
    sleeper = asyncio.create_task(slow.append(fence, [answer("secret")], checkpoint=a_checkpoint(b"secret")))
    while len(await quick.exchange_messages(fence.exchange_id)) < 2:
        await asyncio.sleep(0.01)
    await quick.delete_session(fence.session_id)
    awake.set()
    await sleeper
    for name in ("sessions", "exchanges", "messages", "session_states"):
        assert await real[name].count_documents({}) == 0, name


@pytest.mark.parametrize("document", ["sessions", "exchanges"])
async def test_an_owner_that_was_fenced_out_meanwhile_pauses_nothing(open_mongo: OpenMongo, document: str) -> None:
    """It wakes up before its look at the session, or after it, and the exchange has gone on as another's."""
    slow, quick = await open_mongo(), await open_mongo()
    fence, awake = await begin_new(slow, owner="one"), asyncio.Event()
    method = "find_one" if document == "sessions" else "update_one"
    make_faulty(slow, once(document, method, awake))
    sleeper = asyncio.create_task(slow.set_waiting(fence, a_pause(last_seq=99)))
    await asyncio.sleep(0.05)
    await quick.set_waiting(fence, a_pause())
    await quick.decide(await stored(quick, fence.exchange_id), [a_decision()], "two")
    now = await quick.fence(fence.session_id)
    assert now is not None
    now = fence_after(await quick.append(now, [answer("done")], checkpoint=a_checkpoint(b"on")), now.exchange_id, "two")
    awake.set()
    with pytest.raises(FencedOut):
        await sleeper
    running = await stored(quick, fence.exchange_id)
    assert (running.status, running.owner, running.last_seq) == (ExchangeStatus.RUNNING, "two", next_epoch(7))
    await quick.append(now, [answer("and on")], an_end())


async def test_a_pause_behind_what_it_has_not_seen_is_refused(store: MongoStore) -> None:
    """The same owner has written since: messages would be missing in what the pause goes on from."""
    fence = await begin_new(store, owner="one")
    await store.append(fence, [answer()])
    with pytest.raises(FencedOut):
        await store.set_waiting(fence, a_pause())
    assert (await stored(store, fence.exchange_id)).status is ExchangeStatus.RUNNING


async def test_a_checkpoint_that_was_not_dropped_is_not_given_out(store: MongoStore) -> None:
    session = a_session()
    await store.create_session(session)
    fence = await begin(store, session)
    await store.append(fence, [], an_end(ExchangeStatus.INTERRUPTED), a_checkpoint())
    assert await store.checkpoint(fence.exchange_id) is not None
    make_faulty(store, once("exchanges", "update_one", "refused"))
    with pytest.raises(StoreUnavailable):
        await store.begin_exchange(an_exchange(session, first_rank=1), question())
    assert await store.checkpoint(fence.exchange_id) is None


async def test_a_state_too_large_for_a_document_is_not_kept(
    store: MongoStore, caplog: pytest.LogCaptureFixture
) -> None:
    fence, small = await begin_new(store, owner="one"), a_checkpoint(b"small")
    large = a_checkpoint(b"x" * 12_000_001)
    for checkpoint in (small, large):
        written = await store.append(fence, [answer()], checkpoint=checkpoint)
        fence = fence_after(written, fence.exchange_id, "one")
        assert await store.checkpoint(fence.exchange_id) == small
    told = [vars(record)["what"] for record in caplog.records if record.message == "state too large for MongoDB"]
    assert told == ["a checkpoint"]
    with pytest.raises(Internal):
        await store.set_waiting(fence, a_pause(checkpoint=large))
    record = await store.get_exchange(fence.exchange_id)
    assert record is not None and record.status is ExchangeStatus.RUNNING


async def test_a_text_too_large_for_a_document_keeps_no_other_from_being_kept(store: MongoStore) -> None:
    long, short = [await begin_new(store, owner="one") for _ in range(2)]
    texts = {long.exchange_id: [a_partial("x" * 17_000_000)], short.exchange_id: [a_partial("short")]}
    await store.keep_partials("one", texts)
    records = [await store.get_exchange(fence.exchange_id) for fence in (long, short)]
    assert [record.partial for record in records if record] == [[], [a_partial("short")]]


async def test_documents_without_the_later_fields_can_be_recovered(store: MongoStore) -> None:
    fence = await begin_new(store)
    later = ("owner", "deadline", "partial", "decisions", "checkpoint_record", "ran_ms", "first_token_ms")
    await store.driver.database["exchanges"].update_one(
        {"_id": fence.exchange_id}, {"$unset": dict.fromkeys((*later, "runtime_context"), "")}
    )
    await store.driver.database["sessions"].update_one({"_id": fence.session_id}, {"$unset": {"active_owner": ""}})
    assert [record.id for record in await store.running_exchanges()] == [fence.exchange_id]
    assert await store.fence(fence.session_id) == fence
    await store.set_waiting(fence, a_pause())
    waiting = await store.get_exchange(fence.exchange_id)
    assert waiting is not None
    await store.decide(waiting, [a_decision()], "two")
    now = await store.fence(fence.session_id)
    assert now is not None and now.owner == "two"
    await store.append(now, [], an_end())


async def test_messages_without_the_later_fields_are_understood(store: MongoStore) -> None:
    draft = replace(answer(), metadata=MessageMetadata(extras={"agent": "a", "inner": 1, "reached": [0]}))
    fence = await begin_new(store)
    await store.append(fence, [draft], an_end())
    later = dict.fromkeys(("inner", "reached", "block"), "")
    await store.driver.database["messages"].update_many({}, {"$unset": later})
    message = (await store.exchange_messages(fence.exchange_id))[-1]
    assert (message.inner, message.reached, message.shown().metadata.extras) == (1, [0], {"agent": "a"})
