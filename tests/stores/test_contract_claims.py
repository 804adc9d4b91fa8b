"""What every store does with who runs an exchange: owners, pauses, decisions, and the checkpoints to go on from."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.further_cases import each_once

from agentic_backend.errors import ApprovalNotFound
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.seq import next_epoch
from agentic_backend.stores.base import Checkpoint, Fence, FencedOut, Store
from agentic_backend.stores.protocol.chores import Waiting
from agentic_backend.stores.protocol.trail import AuditRecord, TrailQuery
from agentic_backend.stores.records import CheckpointKind, ExchangePolicy
from agentic_backend.stores.tables import PARTIAL_PIECES
from tests.stores.conftest import OpenStore
from tests.stores.samples import (
    EPOCH,
    PENDING,
    a_checkpoint,
    a_decision,
    a_partial,
    a_pause,
    a_piece,
    a_session,
    an_end,
    an_exchange,
    answer,
    begin,
    begin_new,
    begin_waiting,
    fence_after,
    new_id,
    question,
    stored,
)
from tests.stores.trail_samples import an_audit

CONTEXT = {"page": "/start"}


async def fence_of(store: Store, session_id: str) -> Fence:
    fence = await store.fence(session_id)
    assert fence is not None
    return fence


async def test_an_exchange_begins_as_its_owners(store: Store) -> None:
    session = a_session()
    exchange = an_exchange(session, owner="one", runtime_context={"a.b": [{"$c": None}]})
    written = await store.begin_exchange(exchange, question(), session)
    assert await stored(store, exchange.id) == exchange
    assert await store.fence(session.id) == fence_after(written, exchange.id, "one")
    await store.append(fence_after(written, exchange.id, "one"), [], an_end())
    ended = await stored(store, exchange.id)
    assert ended.owner is None
    assert await store.fence(session.id) is None
    assert await store.fence(new_id()) is None


async def test_only_the_owner_writes(store: Store) -> None:
    fence = await begin_new(store, owner="one")
    for owner in ("two", None):
        stranger = Fence(fence.session_id, fence.exchange_id, fence.next_rank, owner)
        for end in (None, an_end()):
            with pytest.raises(FencedOut):
                await store.append(stranger, [answer()], end, a_checkpoint())
        with pytest.raises(FencedOut):
            await store.set_waiting(stranger, a_pause())
    record = await stored(store, fence.exchange_id)
    assert (record.status, record.checkpoint) == (ExchangeStatus.RUNNING, None)
    assert await store.checkpoint(fence.exchange_id) is None
    assert len(await store.exchange_messages(fence.exchange_id)) == 1


async def test_a_waiting_exchange_shows_how_it_paused(store: Store) -> None:
    fence = await begin_new(store, owner="one")
    session, before = await store.get_session(fence.session_id), await stored(store, fence.exchange_id)
    await store.keep_partials("one", {fence.exchange_id: [a_partial()]})
    pause = a_pause(deadline=EPOCH + timedelta(hours=1))
    await store.set_waiting(fence, pause)
    changes = {
        "status": ExchangeStatus.AWAITING_HUMAN,
        "owner": None,
        "deadline": pause.deadline,
        "pending": PENDING,
        "checkpoint": pause.checkpoint.record,
        "usage": pause.usage,
        "last_seq": pause.last_seq,
        "ran_ms": pause.ran_ms,
        "first_token_ms": pause.first_token_ms,
    }
    assert await stored(store, fence.exchange_id) == replace(before, **changes)
    assert await store.get_session(fence.session_id) == session
    assert await store.checkpoint(fence.exchange_id) == pause.checkpoint


async def test_a_decision_hands_the_exchange_to_its_new_owner(store: Store) -> None:
    """Whoever ran it before writes nothing any more."""
    fence = await begin_new(store, owner="one")
    await store.set_waiting(fence, a_pause(deadline=EPOCH))
    waiting = await stored(store, fence.exchange_id)
    await store.decide(waiting, [a_decision()], "two")
    expected = {
        "status": ExchangeStatus.RUNNING,
        "owner": "two",
        "deadline": None,
        "last_seq": next_epoch(waiting.last_seq),
    }
    running = await stored(store, waiting.id)
    assert running == replace(waiting, **(expected | {"decisions": [a_decision()]}))
    for end in (None, an_end()):
        with pytest.raises(FencedOut):
            await store.append(fence, [answer("late")], end)
    with pytest.raises(FencedOut):
        await store.set_waiting(fence, a_pause())
    now = await fence_of(store, fence.session_id)
    assert now == Fence(fence.session_id, fence.exchange_id, fence.next_rank, "two")
    await store.append(now, [answer()], an_end())
    ended = await stored(store, waiting.id)
    assert (ended.status, ended.pending, ended.decisions) == (ExchangeStatus.OK, None, [a_decision()])


async def test_decisions_may_come_one_by_one(store: Store) -> None:
    waiting = await begin_waiting(store, a_pause(deadline=EPOCH))
    edited = a_decision("j", action="edit", args={"n": 1.0, "none": None}, edited_args={"n": 2**80}, message="\u2028")
    waiting = replace(waiting, policy=ExchangePolicy(roles=["teacher"]))
    await store.decide(waiting, [a_decision("i")])
    after_one = await stored(store, waiting.id)
    assert after_one == replace(waiting, decisions=[a_decision("i")])
    with pytest.raises(ApprovalNotFound):
        await store.decide(waiting, [edited], "two")
    assert await stored(store, waiting.id) == after_one
    await store.decide(after_one, [edited])
    await store.decide(await stored(store, waiting.id), [], "two")
    assert (await stored(store, waiting.id)).decisions == [a_decision("i"), edited]


async def test_the_trail_of_a_decision_is_stored_with_it_once(store: Store) -> None:
    waiting = await begin_waiting(store)
    made = a_decision("i", action="answer", answer="left")
    audit = an_audit(waiting.session_id, exchange_id=waiting.id)
    for _ in range(2):
        # The second time, as after a lost answer.
        await store.decide(waiting, [made], "two", "token", trail=[audit])
    assert (await stored(store, waiting.id)).decisions == [made]
    assert (await store.trail(TrailQuery(AuditRecord, {"session_id": waiting.session_id}))).records == [audit]


@pytest.mark.parametrize("owner", [None, "two"])
async def test_nobody_decides_on_what_does_not_wait(store: Store, owner: str | None) -> None:
    waiting = await begin_waiting(store)
    await store.decide(waiting, [], "one")
    with pytest.raises(ApprovalNotFound):
        await store.decide(waiting, [a_decision()], owner)
    await store.append(await fence_of(store, waiting.session_id), [], an_end())
    with pytest.raises(ApprovalNotFound):
        await store.decide(waiting, [a_decision()], owner)
    gone = await begin_waiting(store)
    await store.delete_session(gone.session_id)
    with pytest.raises(ApprovalNotFound):
        await store.decide(gone, [a_decision()], owner)
    assert (await stored(store, waiting.id)).decisions == []


async def test_nobody_decides_on_a_later_pause_by_what_was_read_before(store: Store) -> None:
    waiting = await begin_waiting(store)
    await store.decide(waiting, [], "one")
    await store.set_waiting(await fence_of(store, waiting.session_id), a_pause(last_seq=20))
    with pytest.raises(ApprovalNotFound):
        await store.decide(waiting, [a_decision()], "two")


@pytest.mark.parametrize("runs", [True, False])
async def test_of_people_who_decide_at_once_one_does(open_store: OpenStore, runs: bool) -> None:
    stores = [await open_store(), await open_store()]
    waiting = await begin_waiting(stores[0])
    outcomes = await asyncio.gather(
        *(
            stores[number % 2].decide(waiting, [a_decision(by=f"user {number}")], f"owner {number}" if runs else None)
            for number in range(10)
        ),
        return_exceptions=True,
    )
    [winner] = [number for number, outcome in enumerate(outcomes) if outcome is None]
    assert sum(isinstance(outcome, ApprovalNotFound) for outcome in outcomes) == 9
    record = await stored(stores[1], waiting.id)
    assert [decision.by for decision in record.decisions] == [f"user {winner}"]
    assert record.owner == (f"owner {winner}" if runs else None)
    assert (await fence_of(stores[1], waiting.session_id)).owner == (f"owner {winner}" if runs else "one")


async def test_the_text_being_written_is_kept_while_its_owner_runs_it(store: Store) -> None:
    fence, theirs = await begin_new(store, owner="one"), await begin_new(store, owner="two")
    waiting = await begin_waiting(store)
    texts = {each: [a_partial(), a_partial("\x00🙂")] for each in (fence.exchange_id, theirs.exchange_id, waiting.id)}
    await store.keep_partials("one", texts | {new_id(): []})
    kept = [(await stored(store, each)).partial for each in texts]
    assert kept == [[a_partial(), a_partial("\x00🙂")], [], []]
    await store.keep_partials("one", {fence.exchange_id: []})
    assert (await stored(store, fence.exchange_id)).partial == []
    await store.keep_partials("one", {fence.exchange_id: [a_partial()]})
    await store.append(fence, [answer()], an_end())
    await store.keep_partials("one", {fence.exchange_id: [a_partial()]})
    assert (await stored(store, fence.exchange_id)).partial == []
    await store.keep_partials("one", {})


async def test_what_a_text_has_grown_by_is_added_while_its_owner_runs_it(store: Store) -> None:
    fence, theirs = await begin_new(store, owner="one"), await begin_new(store, owner="two")
    await store.keep_partials("one", {fence.exchange_id: [a_partial("It is")]})
    await store.add_partials([a_piece(fence, "one", 0, " su\x00"), a_piece(theirs, "one", 0, "not yours")])
    added = [a_piece(fence, "one", 2, "third"), a_piece(fence, "one", 1, "nny🙂"), a_piece(fence, "one", 3, "new", 7)]
    for _ in range(2):
        # Also if the answer to the first try is lost.
        await store.add_partials(added)
    texts = await store.partial(fence.exchange_id)
    assert [(text.block, text.text) for text in texts] == [(0, "It is su\x00nny🙂third"), (7, "new")]
    assert await store.partial(theirs.exchange_id) == []
    written = await store.append(fence, [answer()], blocks=[0])
    assert [text.text for text in await store.partial(fence.exchange_id)] == ["new"]
    await store.set_waiting(fence_after(written, fence.exchange_id, "one"), a_pause())
    await store.decide(await stored(store, fence.exchange_id), [a_decision()], "two")
    await store.add_partials([a_piece(fence, "one", 4, "late")])
    assert await store.partial(fence.exchange_id) == []
    await store.add_partials([a_piece(fence, "two", 0, "goes on", 8)])
    assert [text.text for text in await store.partial(fence.exchange_id)] == ["goes on"]
    await store.forget_pieces([fence.exchange_id, new_id()])
    assert await store.partial(fence.exchange_id) == await store.page(PARTIAL_PIECES, None, 9) == []


async def test_pieces_of_a_text_go_with_their_session(store: Store) -> None:
    fence = await begin_new(store, owner="one")
    await store.add_partials([a_piece(fence, "one", 0, "mine")])
    assert len(await store.page(PARTIAL_PIECES, None, 9, session_id=fence.session_id)) == 1
    await store.delete_session(fence.session_id)
    assert await store.page(PARTIAL_PIECES, None, 9, session_id=fence.session_id) == []


async def test_what_has_waited_too_long_comes_in_the_order_of_its_deadline(store: Store) -> None:
    async def due(minute: int) -> str:
        return (await begin_waiting(store, a_pause(deadline=EPOCH + timedelta(minutes=minute)))).id

    late, early = await due(3), await due(1)
    await due(5)
    await begin_waiting(store, a_pause(deadline=None))
    await begin_new(store, deadline=EPOCH)
    claimed = await begin_waiting(store, a_pause(deadline=EPOCH))
    await store.decide(claimed, [], "two")
    at = EPOCH + timedelta(minutes=4)
    expired = await store.expired_exchanges(at)
    assert [record.id for record in expired] == [early, late]
    assert expired[1] == await stored(store, late)
    assert [record.id for record in await store.expired_exchanges(at, 1)] == [early]
    assert await store.expired_exchanges(EPOCH) == []


async def test_what_runs_is_told_but_for_certain_owners_and_ids(store: Store) -> None:
    async def run(owner: str | None) -> str:
        return (await begin_new(store, owner=owner)).exchange_id

    first, second, theirs, nobodys = [await run(owner) for owner in ("one", "one", "two", None)]
    await begin_waiting(store)
    ended = await begin_new(store, owner="one")
    await store.append(ended, [], an_end())

    async def running(**but: list[str]) -> set[str]:
        return {record.id for record in await store.running_exchanges(**but)}

    assert await running() == {first, second, theirs, nobodys}
    assert await running(not_of=["one", "three"]) == {theirs, nobodys}
    assert await running(not_of=["two"], not_among=[second, ended.exchange_id]) == {first, nobodys}
    assert len(await store.running_exchanges(limit=2)) == 2
    [record] = await store.running_exchanges(not_of=["one"], not_among=[nobodys])
    assert record == await stored(store, theirs)
    assert await store.running_among("one", [first, theirs, nobodys, ended.exchange_id, new_id()]) == {first}
    assert await store.running_among("one", []) == set()


async def test_what_a_dead_instance_ran_is_ended_whoever_owned_it(store: Store) -> None:
    fence = await begin_new(store, owner="dead")
    await store.keep_partials("dead", {fence.exchange_id: [a_partial()]})
    [record] = await store.running_exchanges()
    assert record.partial == [a_partial()]
    await store.append(await fence_of(store, record.session_id), [answer()], an_end(ExchangeStatus.INTERRUPTED))
    with pytest.raises(FencedOut):
        await store.append(fence, [answer("late")])
    assert await store.running_exchanges() == []


async def test_a_checkpoint_takes_the_place_of_the_last_one(store: Store) -> None:
    fence = await begin_new(store, owner="one")
    assert await store.checkpoint(fence.exchange_id) is None
    assert await store.checkpoint(new_id()) is None
    last = a_checkpoint(b"x" * 1_000_000, tool="search")
    for checkpoint, expected in ((first := a_checkpoint(b"\x00first\xff"), first), (last, last), (None, last)):
        written = await store.append(fence, [answer()], checkpoint=checkpoint)
        fence = fence_after(written, fence.exchange_id, "one")
        assert await store.checkpoint(fence.exchange_id) == expected
        assert (await stored(store, fence.exchange_id)).checkpoint == expected.record


@pytest.mark.parametrize(
    ("status", "at_the_end"),
    each_once(
        dict.fromkeys([ExchangeStatus.INTERRUPTED, *(status for status in ExchangeStatus if status.ended)]),
        [None, a_checkpoint(b"drained"), a_checkpoint(None)],
    ),
)
async def test_only_what_was_interrupted_can_go_on(
    store: Store, status: ExchangeStatus, at_the_end: Checkpoint | None
) -> None:
    before = a_checkpoint(b"before")
    fence = await begin_new(store, owner="one")
    written = await store.append(fence, [answer()], checkpoint=before)
    await store.append(fence_after(written, fence.exchange_id, "one"), [answer()], an_end(status), at_the_end)
    last = at_the_end or before
    kept = last if status is ExchangeStatus.INTERRUPTED and last.state is not None else None
    assert await store.checkpoint(fence.exchange_id) == kept
    assert (await stored(store, fence.exchange_id)).checkpoint == last.record


async def test_a_resumed_exchange_takes_its_checkpoint_along(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    fence = await begin(store, session, owner="one")
    first = a_checkpoint(b"first")
    await store.append(fence, [answer()], an_end(ExchangeStatus.INTERRUPTED), first)
    resumed = an_exchange(session, owner="two", resumes=fence.exchange_id, decisions=[a_decision()])
    taken = a_checkpoint(b"first", kind=CheckpointKind.RESUME_REQUEST)
    written = await store.begin_exchange(resumed, question(), checkpoint=taken)
    assert await store.checkpoint(fence.exchange_id) is None
    assert (await stored(store, fence.exchange_id)).checkpoint == first.record
    assert await store.checkpoint(resumed.id) == taken
    assert (await stored(store, resumed.id)).decisions == [a_decision()]
    await store.append(fence_after(written, resumed.id, "two"), [answer()], an_end(ExchangeStatus.INTERRUPTED))
    assert await store.checkpoint(resumed.id) == taken
    await begin(store, session)
    assert await store.checkpoint(resumed.id) is None


async def test_a_user_s_waiting_exchanges_are_counted(store: Store) -> None:
    user = new_id()
    fences = [await begin_new(store, user, owner="one") for _ in range(3)]
    await begin_waiting(store)
    assert await store.count_waiting(user) == 0
    for fence in fences[:2]:
        await store.set_waiting(fence, a_pause())
    assert await store.count_waiting(user) == 2
    await store.decide(await stored(store, fences[0].exchange_id), [a_decision()], "one")
    assert await store.count_waiting(user) == 1
    await store.delete_session(fences[1].session_id)
    assert await store.count_waiting(user) == 0


async def test_what_waits_of_all_users_is_counted_with_the_oldest(store: Store) -> None:
    assert await store.waiting_exchanges() == Waiting(0, None)
    fences = [await begin_new(store, new_id(), owner="one") for _ in range(2)]
    assert (await store.waiting_exchanges()).count == 0
    for fence in reversed(fences):
        await store.set_waiting(fence, a_pause())
    oldest = min([(await stored(store, fence.exchange_id)).started_at for fence in fences])
    assert await store.waiting_exchanges() == Waiting(2, oldest)
    for fence in fences:
        await store.delete_session(fence.session_id)
    assert await store.waiting_exchanges() == Waiting(0, None)


async def context_of(store: Store, exchange_id: str) -> dict[str, Any]:
    return (await stored(store, exchange_id)).runtime_context


@pytest.mark.parametrize("status", [ExchangeStatus.OK, ExchangeStatus.ERROR, ExchangeStatus.STOPPED])
@pytest.mark.parametrize("waits", [False, True])
async def test_what_the_client_told_the_agent_goes_with_the_end(
    store: Store, status: ExchangeStatus, waits: bool
) -> None:
    fence = await begin_new(store, owner="one", runtime_context=CONTEXT)
    if waits:
        await store.set_waiting(fence, a_pause())
        assert await context_of(store, fence.exchange_id) == CONTEXT
    await store.append(fence, [answer()], an_end(status), a_checkpoint(None))
    assert await context_of(store, fence.exchange_id) == {}


async def test_it_stays_with_an_interrupted_exchange_until_that_can_not_go_on_any_more(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    for before, last in ((None, a_checkpoint()), (a_checkpoint(), None)):
        fence = await begin(store, session, runtime_context=CONTEXT)
        fence = fence_after(await store.append(fence, [answer()], checkpoint=before), fence.exchange_id)
        await store.append(fence, [], an_end(ExchangeStatus.INTERRUPTED), last)
        assert await store.checkpoint(fence.exchange_id) is not None
        assert await context_of(store, fence.exchange_id) == CONTEXT
        session = await store.get_session(session.id) or session
        after = await begin(store, session)
        assert await context_of(store, fence.exchange_id) == {}
        await store.append(after, [answer()], an_end())


@pytest.mark.parametrize("last", [None, a_checkpoint(None)])
async def test_it_goes_with_an_interrupted_exchange_that_has_nothing_to_go_on_from(
    store: Store, last: Checkpoint | None
) -> None:
    fence = await begin_new(store, runtime_context=CONTEXT)
    await store.append(fence, [answer()], an_end(ExchangeStatus.INTERRUPTED), last)
    assert await store.checkpoint(fence.exchange_id) is None
    assert await context_of(store, fence.exchange_id) == {}
