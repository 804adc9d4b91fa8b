"""What every store does with the trail, whichever database is beneath it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_backend.errors import BadFrame, SessionBusy, SessionCompleted, SessionNotFound
from agentic_backend.stores.base import AlreadyAsked, FencedOut, Store
from agentic_backend.stores.protocol.trail import (
    AuditRecord,
    ExtractionRecord,
    FeedbackRecord,
    SummaryRecord,
    ToolCallRecord,
    TrailQuery,
    TrailRecord,
    UsageRecord,
)
from agentic_backend.stores.tables import TRAIL
from tests.stores.conftest import OpenStore
from tests.stores.samples import EPOCH, a_session, an_end, an_exchange, answer, begin, begin_new, question
from tests.stores.trail_samples import a_feedback, a_usage, an_audit, one_of_each

Fill = Callable[[Store, Sequence[TrailRecord]], Awaitable[None]]


async def kept(store: Store, kind: type[Any] = AuditRecord, **where: str | int) -> list[Any]:
    return (await store.trail(TrailQuery(kind, where))).records


async def everything(store: Store) -> list[TrailRecord]:
    return [record for kind in TRAIL for record in await kept(store, kind)]


async def test_a_record_of_every_kind_is_kept_whole(store: Store, open_store: OpenStore) -> None:
    session = a_session()
    await store.create_session(session)
    records = one_of_each(session.id, text="größer \u2028 'a' $b.c \x00")
    await store.add_trail(records)
    other = await open_store()
    assert {type(record) for record in records} == set(TRAIL)
    for record in records:
        assert await kept(other, type(record)) == [record]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(st.none() | st.booleans() | st.integers() | texts, lambda one: st.lists(one, max_size=3))
times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))


@settings(max_examples=100)
@given(
    text=texts,
    at=times,
    data=st.dictionaries(texts, values, max_size=3),
    cost=st.floats(0, 1e300),
    patterns=st.lists(texts),
)
def test_a_row_of_the_trail_is_the_record_whatever_it_holds(
    text: str, at: datetime, data: dict[str, Any], cost: float, patterns: list[str]
) -> None:
    for record in (
        an_audit("s", at=at, original=text, reason=text, patterns=patterns, rank=3),
        a_usage(at=at, cost=cost, group=None, input_tokens=None, currency=None),
        ExtractionRecord(
            id="x", at=at, session_id="s", exchange_id=None, user_id=text, point="p", module="m", type=text, data=data
        ),
        *(replace(each, at=at) for each in one_of_each("s", text=text)),
    ):
        table: Any = TRAIL[type(record)]
        assert table.record_of(table.row(record)) == record


async def test_a_record_with_the_same_id_replaces_the_one_before(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    audit = an_audit(session.id)
    for record in (audit, audit, replace(audit, rank=7, reason="known by now")):
        await store.add_trail([record])
        assert await kept(store) == [record]
    await store.add_trail([])


async def test_a_record_is_removed_and_the_others_stay(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    first, second = (a_feedback(session.id, minute=minute) for minute in (2, 1))
    await store.add_trail([first, second])
    for _ in range(2):
        await store.remove_trail(FeedbackRecord, first.id)
        assert await kept(store, FeedbackRecord) == [second]
    await store.remove_trail(AuditRecord, second.id)
    assert await kept(store, FeedbackRecord, rating="up", agent_id="assistant") == [second]
    assert await kept(store, FeedbackRecord, rating="down") == []


async def test_writers_of_the_same_record_do_not_fail(store: Store) -> None:
    usage = a_usage()
    await asyncio.gather(*(store.add_trail([usage]) for _ in range(8)))
    assert await kept(store, UsageRecord) == [usage]


async def test_of_a_session_that_is_gone_only_what_outlives_it_is_kept(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    before, after = one_of_each(session.id), one_of_each(session.id)
    await store.add_trail(before)
    await store.delete_session(session.id)
    await store.add_trail(after)
    lasting = {kind for kind, table in TRAIL.items() if not table.of_session}
    assert {record.id for record in await everything(store)} == {
        record.id for record in (*before, *after) if type(record) in lasting
    }


async def test_what_an_ask_and_an_answer_leave_comes_with_their_messages(store: Store) -> None:
    session = a_session()
    exchange = an_exchange(session)
    asked, answered = one_of_each(session.id), one_of_each(session.id, minute=1)
    written = await store.begin_exchange(exchange, question(), session, trail=asked)
    assert {record.id for record in await everything(store)} == {record.id for record in asked}
    fence = await store.fence(session.id)
    assert fence is not None and written.session.next_rank == 1
    # The answer to the first write got lost.
    for _ in range(2):
        repeated = await store.append(fence, [answer()], an_end(), trail=answered, token="t")
        assert len(repeated.messages) == 1
    assert {record.id for record in await everything(store)} == {record.id for record in (*asked, *answered)}


async def test_what_has_no_message_comes_alone(store: Store) -> None:
    fence = await begin_new(store)
    usage = a_usage()
    assert (await store.append(fence, [], trail=[usage])).messages == []
    assert await kept(store, UsageRecord) == [usage]


async def refuse_busy(store: Store, trail: Sequence[TrailRecord]) -> None:
    session = a_session(id="s")
    await store.create_session(session)
    await begin(store, session)
    with pytest.raises(SessionBusy):
        await store.begin_exchange(an_exchange(session), question(), trail=trail)


async def refuse_completed(store: Store, trail: Sequence[TrailRecord]) -> None:
    session = a_session(id="s")
    await store.create_session(session)
    await store.complete_session(session.id, EPOCH)
    with pytest.raises(SessionCompleted):
        await store.begin_exchange(an_exchange(session), question(), trail=trail)


async def refuse_unknown(store: Store, trail: Sequence[TrailRecord]) -> None:
    with pytest.raises(SessionNotFound):
        await store.begin_exchange(an_exchange(a_session(id="s")), question(), trail=trail)


async def refuse_repeated(store: Store, trail: Sequence[TrailRecord]) -> None:
    session = a_session(id="s")
    await store.create_session(session)
    fence = await begin(store, session, client_exchange_id="key")
    await store.append(fence, [answer()], an_end())
    with pytest.raises(AlreadyAsked):
        await store.begin_exchange(an_exchange(session, client_exchange_id="key"), question(), trail=trail)


async def refuse_after_deletion(store: Store, trail: Sequence[TrailRecord]) -> None:
    session = a_session(id="s")
    await store.create_session(session)
    fence = await begin(store, session)
    await store.delete_session(session.id)
    with pytest.raises(FencedOut):
        await store.append(fence, [answer()], an_end(), trail=trail)


@pytest.mark.parametrize(
    "refuse", [refuse_busy, refuse_completed, refuse_unknown, refuse_repeated, refuse_after_deletion]
)
async def test_what_is_refused_leaves_nothing_of_its_session(store: Store, refuse: Fill) -> None:
    await refuse(store, [record for record in one_of_each("s") if TRAIL[type(record)].of_session])
    assert await everything(store) == []


async def test_pages_under_equal_times_neither_repeat_nor_skip(store: Store) -> None:
    usages = [a_usage(id=f"{number:02}", minute=number // 4) for number in range(10)]
    await store.add_trail(usages)
    await store.add_trail([a_usage("bob")])
    read: list[str] = []
    cursor: str | None = None
    for size in (3, 3, 3, 1):
        page = await store.trail(TrailQuery(UsageRecord, {"user_id": "ann"}, limit=3, cursor=cursor))
        assert len(page.records) == size
        read += [record.id for record in page.records]
        # What comes later is no part of the pages that follow.
        await store.add_trail([a_usage(minute=60)])
        cursor = page.next_cursor
    assert cursor is None and read == [usage.id for usage in reversed(usages)]
    with pytest.raises(BadFrame):
        await store.trail(TrailQuery(UsageRecord, cursor="x"))


async def test_records_are_found_by_their_values_and_their_time(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    audits = [an_audit(session.id, minute=n, rank=n % 2, exchange_id=f"e{n}") for n in range(6)]
    await store.add_trail(audits)
    await store.add_trail([a_usage(group="7b"), a_usage(group=None), a_usage(group="8a")])
    assert await kept(store, session_id=session.id, rank=1) == [audits[5], audits[3], audits[1]]
    assert await kept(store, exchange_id="e2") == [audits[2]]
    assert await kept(store, session_id="other") == []
    assert [usage.group for usage in await kept(store, UsageRecord, group="8a")] == ["8a"]
    since, until = EPOCH + timedelta(minutes=2), EPOCH + timedelta(minutes=4)
    between = TrailQuery(AuditRecord, {"session_id": session.id}, since=since, until=until)
    assert (await store.trail(between)).records == [audits[3], audits[2]]
    assert (await store.trail(replace(between, until=None, limit=3))).records == audits[:2:-1]


async def test_the_last_summary_of_a_session_is_one_read_away(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    for minute in range(3):
        await store.add_trail([each for each in one_of_each(session.id, minute=minute) if type(each) is SummaryRecord])
    page = await store.trail(TrailQuery(SummaryRecord, {"session_id": session.id}, limit=1))
    assert [record.at for record in page.records] == [EPOCH + timedelta(minutes=2)] and page.next_cursor


async def test_a_call_that_goes_on_is_replaced_by_its_result(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    [call] = [each for each in one_of_each(session.id) if isinstance(each, ToolCallRecord)]
    await store.add_trail([replace(call, state="pending", result=None)])
    await store.add_trail([call])
    assert await kept(store, ToolCallRecord, session_id=session.id) == [call]
