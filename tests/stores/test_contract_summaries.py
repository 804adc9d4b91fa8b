"""What every store keeps of a session's summary, and how it counts turns."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.trail import SummaryRecord, TrailQuery
from agentic_backend.stores.records import SessionRecord
from tests.stores.samples import a_session, an_end, answer, begin, new_id


def a_summary(session: SessionRecord, to_rank: int = 1) -> SummaryRecord:
    return SummaryRecord(
        id=new_id(),
        at=datetime(2026, 1, 1, tzinfo=UTC),
        session_id=session.id,
        user_id=session.user_id,
        from_rank=0,
        to_rank=to_rank,
        text="They talked about cats.",
        tokens=5,
        model="small",
        chat_profile="compact",
        turn_number=7,
        turns=3,
        tokens_before=900,
        tokens_after=400,
        dropped_from=1,
    )


async def ended(store: Store) -> SessionRecord:
    """A session with an exchange that has ended."""
    session = a_session()
    await store.create_session(session)
    written = await store.append(await begin(store, session), [answer()], an_end())
    return written.session


async def summaries(store: Store, session: SessionRecord) -> list[SummaryRecord]:
    return (await store.trail(TrailQuery(SummaryRecord, {"session_id": session.id}))).records


async def test_a_summary_is_kept_with_its_session(store: Store) -> None:
    session = await ended(store)
    summary = a_summary(session)
    kept = await store.keep_summary(summary, session)
    assert kept == replace(session, summary_id=summary.id) == await store.get_session(session.id)
    found = await store.trail(TrailQuery(SummaryRecord, {"id": summary.id}))
    assert found.records == [summary]
    written = await store.append(await begin(store, session), [answer()], an_end())
    assert written.session.summary_id == summary.id


@pytest.mark.parametrize(
    "what", ["goes on", "went on", "is completed", "has another summary", "is deleted", "is reset"]
)
async def test_a_summary_of_a_session_that_has_changed_is_not_kept(store: Store, what: str) -> None:
    session = await ended(store)
    others: list[SummaryRecord] = []
    match what:
        case "goes on":
            await begin(store, session)
        case "went on":
            await store.append(await begin(store, session), [], an_end())
        case "is completed":
            await store.complete_session(session.id, store.now())
        case "is reset":
            await store.reset_state(session.id)
        case "has another summary":
            others = [a_summary(session)]
            assert await store.keep_summary(others[0], session) is not None
        case "is deleted":
            await store.delete_session(session.id)
    assert await store.keep_summary(a_summary(session), session) is None
    assert await summaries(store, session) == others


async def test_of_two_summaries_at_once_one_is_kept(store: Store) -> None:
    session = await ended(store)
    both = [a_summary(session) for _ in range(2)]
    kept = await asyncio.gather(*(store.keep_summary(one, session) for one in both))
    [winner] = [one for one in kept if one is not None]
    found = await store.get_session(session.id)
    assert found is not None and found.summary_id == winner.summary_id
    assert [one.id for one in await summaries(store, session)] == [winner.summary_id]


async def test_the_exchange_that_runs_may_keep_one(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    await store.append(await begin(store, session), [answer()], an_end())
    fence = await begin(store, session)
    running = await store.get_session(session.id)
    assert running is not None and running.active_exchange_id == fence.exchange_id
    assert await store.keep_summary(a_summary(session), running) is not None
    written = await store.append(fence, [answer()], an_end())
    assert written.session.summary_id is not None


async def test_a_reset_forgets_the_summaries(store: Store) -> None:
    session = await ended(store)
    await store.keep_summary(a_summary(session), session)
    reset = await store.reset_state(session.id)
    assert reset is not None and reset.summary_id is None
    assert await summaries(store, session) == []


async def test_turns_are_counted_as_exchanges_begin(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    for number in range(1, 4):
        fence = await begin(store, session)
        found = await store.get_session(session.id)
        assert found is not None and found.turn_count == number
        written = await store.append(fence, [answer(), answer()], an_end())
        assert written.session.turn_count == number
