"""Pages of exchanges: those that count, by rank, without what only their next owner needs; and their activities."""

from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.exchange_pages import ACTIVITIES_PER_EXCHANGE
from agentic_backend.stores.protocol.trail import ActivityRecord
from agentic_backend.stores.records import ExchangePolicy, SessionRecord
from tests.stores.samples import (
    EPOCH,
    a_checkpoint,
    a_decision,
    a_partial,
    a_pause,
    a_session,
    an_end,
    answer,
    begin,
    begin_new,
    begin_waiting,
    fence_after,
    new_id,
    run_exchanges,
    stored,
)

MIB = 1024 * 1024


async def a_conversation(store: Store, exchanges: int) -> tuple[SessionRecord, list[str]]:
    session = a_session()
    await store.create_session(session)
    return session, await run_exchanges(store, session, exchanges)


async def page(
    store: Store, session_id: str, from_rank: int = 0, limit: int = 10, max_bytes: int = MIB
) -> tuple[list[str], int | None]:
    found = await store.exchanges_from(session_id, from_rank, limit, max_bytes)
    return [record.id for record in found.exchanges], found.next_rank


def an_activity(session_id: str, exchange_id: str, seq: int) -> ActivityRecord:
    return ActivityRecord(
        id=f"{exchange_id}.{seq}",
        at=EPOCH,
        session_id=session_id,
        exchange_id=exchange_id,
        user_id="ann",
        seq=seq,
        after_rank=0,
        kind="handoff",
        data={"from": "a", "to": "b"},
    )


async def test_a_page_begins_with_the_exchange_that_has_the_rank(store: Store) -> None:
    session, ids = await a_conversation(store, 4)
    # Each has a question and an answer: the ranks 0 and 1, 2 and 3, and so on.
    assert await page(store, session.id) == (ids, None)
    assert await page(store, session.id, 2) == (ids[1:], None)
    assert await page(store, session.id, 3) == (ids[1:], None)
    assert await page(store, session.id, 7) == (ids[3:], None)
    assert await page(store, session.id, 1000) == (ids[3:], None)
    assert await page(store, new_id()) == ([], None)


async def test_pages_follow_one_another_without_gap_or_repeat(store: Store) -> None:
    session, ids = await a_conversation(store, 120)
    found: list[str] = []
    rank: int | None = 0
    while rank is not None:
        part, rank = await page(store, session.id, rank, limit=51)
        found += part
    assert found == ids


async def test_the_running_exchange_is_among_them_and_no_other_sessions(store: Store) -> None:
    session, ids = await a_conversation(store, 1)
    await a_conversation(store, 2)
    fence = await begin(store, session)
    found = await store.exchanges_from(session.id, 0, 10, MIB)
    assert [(one.id, one.status) for one in found.exchanges] == [
        (ids[0], ExchangeStatus.OK),
        (fence.exchange_id, ExchangeStatus.RUNNING),
    ]


async def test_a_page_tells_what_people_see_and_leaves_out_what_owners_need(store: Store) -> None:
    fence = await begin_new(
        store, owner="one", runtime_context={"secret": 1}, policy=ExchangePolicy(name="Ann"), agent_id="assistant"
    )
    await store.keep_partials("one", {fence.exchange_id: [a_partial()]})
    whole = await stored(store, fence.exchange_id)
    [listed] = (await store.exchanges_from(fence.session_id, 0, 10, MIB)).exchanges
    assert (listed.runtime_context, listed.policy, listed.partial) == ({}, None, [])
    assert (listed.id, listed.first_rank, listed.started_at) == (whole.id, 0, whole.started_at)


async def test_large_decisions_make_a_page_shorter(store: Store) -> None:
    waiting = await begin_waiting(store)
    await store.decide(waiting, [a_decision(args={"text": "x" * 3_000})], "two")
    fence = await store.fence(waiting.session_id)
    assert fence is not None
    ended = await store.append(fence, [answer()], an_end())
    later = await run_exchanges(store, ended.session, 2)
    assert await page(store, waiting.session_id, max_bytes=2_000) == ([waiting.id], 2)
    assert await page(store, waiting.session_id, 2, max_bytes=2_000) == (later, None)
    assert await page(store, waiting.session_id, max_bytes=9_000) == ([waiting.id, *later], None)


async def test_activities_come_by_seq_and_only_the_first_ones(store: Store) -> None:
    session, [first, second] = await a_conversation(store, 2)
    most = ACTIVITIES_PER_EXCHANGE
    many = [an_activity(session.id, first, seq) for seq in range(most + 5, 0, -1)]
    await store.add_trail([*many, an_activity(session.id, second, 4)])
    found = await store.activities_of([first, second])
    assert [one.seq for one in found if one.exchange_id == first] == list(range(1, most + 1))
    assert [one for one in found if one.exchange_id == second] == [an_activity(session.id, second, 4)]
    assert await store.activities_of([]) == []


async def test_activities_go_with_their_session(store: Store) -> None:
    session, [exchange_id] = await a_conversation(store, 1)
    await store.add_trail([an_activity(session.id, exchange_id, 1)])
    await store.delete_session(session.id)
    assert await store.activities_of([exchange_id]) == []


async def test_only_an_exchange_with_a_checkpoint_can_go_on(store: Store) -> None:
    fence = await begin_new(store, owner="one")
    assert not await store.can_go_on(fence.exchange_id)
    written = await store.append(fence, [answer()], checkpoint=a_checkpoint())
    assert await store.can_go_on(fence.exchange_id)
    next_fence = fence_after(written, fence.exchange_id, "one")
    ended = await store.append(next_fence, [], an_end(ExchangeStatus.INTERRUPTED), a_checkpoint())
    assert await store.can_go_on(fence.exchange_id)
    await begin(store, ended.session)
    assert not await store.can_go_on(fence.exchange_id)
    assert not await store.can_go_on(new_id())


async def test_an_exchange_that_ended_otherwise_can_not_go_on(store: Store) -> None:
    fence = await begin_new(store, owner="one")
    await store.append(fence, [answer()], an_end(), a_checkpoint())
    assert not await store.can_go_on(fence.exchange_id)
    waiting = await begin_waiting(store, a_pause())
    assert await store.can_go_on(waiting.id)
