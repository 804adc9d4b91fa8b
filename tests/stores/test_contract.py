"""What every store does with exchanges, messages and KPI records, whichever database is beneath it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from agentic_backend.errors import SessionBusy, SessionCompleted, SessionNotFound
from agentic_backend.protocol.events import ErrorDetail, ErrorInfo
from agentic_backend.protocol.messages import (
    Channel,
    ExchangeStatus,
    FinishReason,
    MessageMetadata,
    Role,
    TokenUsage,
    utc_now,
)
from agentic_backend.protocol.parts import (
    CodePart,
    CustomPart,
    GeoPart,
    ImageUrlPart,
    LinkPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from agentic_backend.stores.base import AlreadyAsked, ExchangeEnd, Fence, FencedOut, SessionQuery, Store
from agentic_backend.stores.records import MessageDraft
from tests.stores.samples import (
    EPOCH,
    a_checkpoint,
    a_kpi,
    a_pause,
    a_session,
    an_end,
    an_exchange,
    answer,
    as_kpis,
    begin,
    begin_new,
    fence_after,
    kpis_of,
    new_id,
    question,
    run_exchanges,
    stored,
)

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def test_an_exchange_opens_with_the_users_message(store: Store) -> None:
    session = a_session(minute=-1)
    exchange = an_exchange(session, client_exchange_id=new_id(), resumes="old", first_rank=77, traceparent=TRACEPARENT)
    await store.create_session(session)
    before = utc_now()
    written = await store.begin_exchange(exchange, question("Why?"))

    (message,) = written.messages
    assert (message.session_id, message.exchange_id, message.rank) == (session.id, exchange.id, 0)
    assert (message.role, message.parts) == (Role.USER, [TextPart(text="Why?")])
    assert abs(message.timestamp - before) < timedelta(seconds=30), "a busy machine has heard the database's time late"
    expected = {"next_rank": 1, "message_count": 1, "turn_count": 1, "active_exchange_id": exchange.id}
    expected["updated_at"] = message.timestamp
    assert written.session == replace(session, **expected) == await store.get_session(session.id)
    assert await store.exchange_messages(exchange.id) == written.messages
    assert await store.get_exchange(exchange.id) == replace(exchange, first_rank=0)


async def test_an_exchange_can_bring_its_session(store: Store) -> None:
    session = a_session()
    exchange = an_exchange(session)
    written = await store.begin_exchange(exchange, question(), session)
    assert written.session == await store.get_session(session.id)
    assert (written.session.title, written.session.next_rank) == (session.title, 1)


async def test_a_later_exchange_begins_at_the_next_rank(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    await run_exchanges(store, session, 2)
    fence = await begin(store, session)
    record = await store.get_exchange(fence.exchange_id)
    assert record is not None and (record.first_rank, fence.next_rank) == (4, 5)


async def test_no_exchange_begins_in_a_session_that_is_not_the_users(store: Store) -> None:
    session = a_session("ann")
    with pytest.raises(SessionNotFound):
        await store.begin_exchange(an_exchange(session), question())
    await store.create_session(session)
    with pytest.raises(SessionNotFound):
        await store.begin_exchange(an_exchange(session, user_id="bob"), question())
    assert await store.get_session(session.id) == session


async def test_no_exchange_begins_in_a_completed_session(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    completed = await store.complete_session(session.id, EPOCH)
    exchange = an_exchange(session)
    with pytest.raises(SessionCompleted):
        await store.begin_exchange(exchange, question())
    assert completed is not None and await store.get_session(session.id) == completed.session
    assert await store.get_exchange(exchange.id) is None


@pytest.mark.parametrize("waiting", [False, True])
async def test_no_exchange_begins_beside_another(store: Store, waiting: bool) -> None:
    session = a_session()
    await store.create_session(session)
    fence = await begin(store, session)
    if waiting:
        await store.set_waiting(fence, a_pause())
    refused = an_exchange(session)
    with pytest.raises(SessionBusy):
        await store.begin_exchange(refused, question())
    assert await store.get_exchange(refused.id) is None
    assert len(await store.messages_after(session.id, -1, 10)) == 1
    await store.append(fence, [answer()], an_end())
    await begin(store, session)


async def test_a_repeated_ask_names_the_exchange_that_it_began(store: Store) -> None:
    """Whatever else is wrong with it: the session busy, completed, unknown, or another one."""
    key, user = new_id(), new_id()
    session, unborn = a_session(user), a_session(user)
    await store.create_session(session)
    fence = await begin(store, session, client_exchange_id=key)

    async def repeat() -> None:
        for target, new_session in ((session, None), (unborn, None), (unborn, unborn)):
            exchange = an_exchange(target, client_exchange_id=key)
            with pytest.raises(AlreadyAsked) as caught:
                await store.begin_exchange(exchange, question(), new_session)
            assert caught.value.exchange_id == fence.exchange_id
            assert await store.get_exchange(exchange.id) is None

    await repeat()
    await store.append(fence, [answer()], an_end())
    await repeat()
    await store.complete_session(session.id, EPOCH)
    await repeat()
    assert await store.get_session(unborn.id) is None


async def test_a_client_exchange_id_is_its_users_own(store: Store) -> None:
    key, ann, bob = new_id(), new_id(), new_id()
    ids = {user: (await begin_new(store, user, client_exchange_id=key)).exchange_id for user in (ann, bob)}
    for user in (ann, bob):
        found = await store.find_exchange(user, key)
        assert found is not None and found.id == ids[user]
    assert await store.find_exchange(new_id(), key) is None
    assert await store.find_exchange(ann, new_id()) is None


async def test_the_clients_ids_of_exchanges_are_found(store: Store) -> None:
    named = [await begin_new(store, new_id(), client_exchange_id=key) for key in ("one", "two")]
    unnamed = await begin_new(store, new_id())
    ids = [fence.exchange_id for fence in (*named, unnamed)]
    assert await store.client_exchange_ids([*ids, new_id()]) == {ids[0]: "one", ids[1]: "two"}
    assert await store.client_exchange_ids([]) == {}


async def test_asks_without_a_client_exchange_id_are_all_new(store: Store) -> None:
    user = new_id()
    assert await begin_new(store, user) != await begin_new(store, user)


async def test_messages_come_back_as_they_were_written(store: Store) -> None:
    parts = [
        TextPart(text="line\nligne\u2028\x00🙂"),
        CodePart(language="sql", code="SELECT ';--'"),
        ImageUrlPart(url="https://x/y.png", alt=""),
        ToolCallPart(
            call_id="c",
            name="f",
            title="Find 🙂",
            args={"none": None, "deep": [{"n": 1.0, "big": 2**80}], "$set": {"a.b": 0}},
        ),
        ToolResultPart(call_id="c", ok=False, latency_ms=0, content=""),
        LinkPart(kind="citation", href="https://x", title="X"),
        GeoPart(geojson={"type": "Point", "coordinates": [1.25, -3]}, fit_bounds=True, style={"": None}),
        CustomPart(kind="notes:note", data={"$a.b": {"": [None, 1.5, "\u00e9"]}}, text="A **note**"),
    ]
    metadata = MessageMetadata(
        model="m",
        token_usage=TokenUsage(input_tokens=1, output_tokens=2, total_tokens=3),
        sources=[{"id": 1, "none": None}],
        agent_id="a",
        latency_ms=4,
        finish_reason=FinishReason.TOOL_CALLS,
        extras={"$k": [True, {}]},
    )
    drafts = [
        MessageDraft(role=Role.ASSISTANT, channel=Channel.TOOL_CALL, parts=parts, metadata=metadata),
        MessageDraft(role=Role.SYSTEM, channel=Channel.SYSTEM_NOTE, parts=[]),
    ]
    fence = await begin_new(store)
    written = await store.append(fence, drafts)
    assert [(m.role, m.channel, m.parts, m.metadata) for m in written.messages] == [
        (draft.role, draft.channel, draft.parts, draft.metadata) for draft in drafts
    ]
    assert await store.messages_after(fence.session_id, 0, 10) == written.messages


async def test_batches_get_ranks_without_a_gap(store: Store) -> None:
    fence = await begin_new(store)
    for size in (1, 3, 0, 2):
        written = await store.append(fence, [answer()] * size)
        assert [message.rank for message in written.messages] == list(range(fence.next_rank, fence.next_rank + size))
        assert written.session == await store.get_session(fence.session_id)
        assert (written.session.next_rank, written.session.message_count) == (fence.next_rank + size,) * 2
        assert written.session.active_exchange_id == fence.exchange_id
        fence = fence_after(written, fence.exchange_id)
    assert [message.rank for message in await store.exchange_messages(fence.exchange_id)] == list(range(7))


async def test_the_end_is_written_with_the_last_messages(store: Store) -> None:
    user = new_id()
    fence = await begin_new(store, user)
    await store.set_waiting(fence, a_pause())
    error = ErrorInfo(
        code="model_error",
        content="No.",
        retryable=True,
        request_id="r",
        retry_after_s=1.5,
        detail=ErrorDetail(type="ValueError", text="it's \x00 or \u2028", where="desk.py:3 in answer"),
    )
    end = ExchangeEnd(
        status=ExchangeStatus.ERROR,
        usage=TokenUsage(input_tokens=5, output_tokens=6, total_tokens=11),
        last_seq=42,
        error=error,
        kpi=a_kpi(user, exchange_id=fence.exchange_id, session_id=fence.session_id),
        session_state=b"\x00state\xff",
    )
    before = await store.get_exchange(fence.exchange_id)
    written = await store.append(fence, [answer("Half")], end)

    assert written.session.active_exchange_id is None
    assert written.session.updated_at == written.messages[-1].timestamp
    assert written.session == await store.get_session(fence.session_id)
    assert before is not None
    changes = {"status": end.status, "usage": end.usage, "error": error, "last_seq": 42}
    ended_at = written.session.updated_at
    expected = replace(before, **(changes | {"ended_at": ended_at, "pending": None, "deadline": None}))
    assert await store.get_exchange(fence.exchange_id) == expected
    assert await store.session_state(fence.session_id) == end.session_state
    assert end.kpi is not None and await kpis_of(store, user) == as_kpis(end.kpi)


async def test_a_writer_without_the_fence_writes_nothing(store: Store) -> None:
    user = new_id()
    session = a_session(user)
    await store.create_session(session)
    (former,) = await run_exchanges(store, session, 1)
    fence = await begin(store, session)
    end = an_end(kpi=a_kpi(user), session_state=b"lost")
    before = await store.get_session(session.id), await store.get_exchange(fence.exchange_id)
    for stale in (
        Fence(session.id, fence.exchange_id, fence.next_rank - 1),
        Fence(session.id, fence.exchange_id, fence.next_rank + 1),
        Fence(session.id, former, fence.next_rank),
        Fence(session.id, new_id(), fence.next_rank),
        Fence(new_id(), fence.exchange_id, fence.next_rank),
    ):
        with pytest.raises(FencedOut):
            await store.append(stale, [answer(), answer()], end)
        with pytest.raises(FencedOut):
            await store.append(stale, [answer()])
        with pytest.raises(FencedOut):
            await store.set_waiting(stale, a_pause())
    assert (await store.get_session(session.id), await store.get_exchange(fence.exchange_id)) == before
    assert len(await store.messages_after(session.id, -1, 100)) == 3
    assert await store.session_state(session.id) is None
    assert await kpis_of(store, user) == []


async def test_an_ended_exchange_ends_only_once(store: Store) -> None:
    fence = await begin_new(store)
    written = await store.append(fence, [answer()], an_end())
    with pytest.raises(FencedOut):
        await store.append(fence_after(written, fence.exchange_id), [answer()], an_end(ExchangeStatus.STOPPED))
    record = await store.get_exchange(fence.exchange_id)
    assert record is not None and record.status is ExchangeStatus.OK


async def test_a_batch_with_a_text_that_cannot_be_stored_is_wholly_absent(store: Store) -> None:
    fence = await begin_new(store)
    with pytest.raises(ValueError):
        await store.append(fence, [answer(), answer("\ud800")], an_end())
    assert len(await store.exchange_messages(fence.exchange_id)) == 1
    await store.append(fence, [answer()], an_end())


async def test_a_question_that_cannot_be_stored_keeps_nobody_from_asking(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    for new_session in (None, a_session()):
        exchange = an_exchange(new_session or session, client_exchange_id="mine")
        with pytest.raises(ValueError):
            await store.begin_exchange(exchange, question("\ud800"), new_session)
        assert await store.get_exchange(exchange.id) is None
    await begin(store, session, client_exchange_id="mine")


async def test_unknown_exchanges_are_empty(store: Store) -> None:
    assert await store.get_exchange(new_id()) is None
    assert await store.exchange_messages(new_id()) == []
    assert await store.messages_after(new_id(), -1, 10) == []
    assert await store.last_exchanges(new_id(), 10) == []


async def test_messages_are_read_on_from_a_rank(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    await run_exchanges(store, session, 3)
    await begin_new(store)

    async def ranks(after_rank: int, limit: int) -> list[int]:
        return [message.rank for message in await store.messages_after(session.id, after_rank, limit)]

    assert await ranks(-1, 100) == [0, 1, 2, 3, 4, 5]
    assert await ranks(-1, 2) == [0, 1]
    assert await ranks(1, 3) == [2, 3, 4]
    assert await ranks(5, 10) == []


async def test_the_last_exchanges_are_ended_ones_in_order(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    ids = await run_exchanges(store, session, 4)
    running = await begin(store, session)
    await store.append(running, [answer("so far")])
    await begin_new(store)
    for count in (0, 1, 2, 4, 9):
        messages = await store.last_exchanges(session.id, count)
        wanted = ids[max(len(ids) - count, 0) :]
        expected = [message for each in wanted for message in await store.exchange_messages(each)]
        assert messages == expected and len(messages) == 2 * len(wanted)


@pytest.mark.parametrize("status", [status for status in ExchangeStatus if status.ended])
async def test_an_exchange_counts_among_the_last_however_it_ended(store: Store, status: ExchangeStatus) -> None:
    fence = await begin_new(store)
    await store.append(fence, [answer()], an_end(status))
    assert len(await store.last_exchanges(fence.session_id, 1)) == 2


async def test_a_proof_of_writing_changes_nothing_that_counts(store: Store) -> None:
    before = await store.list_sessions(SessionQuery(user_id="alice"))
    for _ in range(2):
        await store.prove_write()
    assert await store.list_sessions(SessionQuery(user_id="alice")) == before


async def test_times_in_a_session_never_run_back(store: Store) -> None:
    """Though another instance, whose time was ahead, has written before."""
    ahead = utc_now() + timedelta(hours=1)
    session = a_session(created_at=ahead, updated_at=ahead)
    await store.create_session(session)
    # Its asker has read the session; the one of the next has read it before that one wrote.
    fence = await begin(store, session, started_at=ahead)
    fence = replace(fence, after=ahead)
    written = await store.append(fence, [answer("one")], checkpoint=a_checkpoint())
    later = replace(fence_after(written, fence.exchange_id), after=written.session.updated_at)
    await store.append(later, [answer("two")], an_end())
    again = await begin(store, session, first_rank=0, started_at=utc_now())
    last = replace(again, after=ahead)
    await store.append(last, [answer("three")], an_end())
    completed = await store.complete_session(session.id, utc_now())
    assert completed is not None and completed.session.ended_at is not None
    times = [session.created_at]
    for exchange_id in (fence.exchange_id, again.exchange_id):
        record = await stored(store, exchange_id)
        assert record.ended_at is not None
        stamps = [message.timestamp for message in await store.exchange_messages(exchange_id)]
        times += [record.started_at, *stamps, record.ended_at]
    times += [completed.session.ended_at, completed.session.updated_at]
    assert times == sorted(times)


async def test_a_fence_knows_how_late_it_is_in_the_session(store: Store) -> None:
    ahead = utc_now() + timedelta(hours=1)
    session = a_session(created_at=ahead, updated_at=ahead)
    await store.create_session(session)
    await begin(store, session)
    fence = await store.fence(session.id)
    assert fence is not None and fence.after == (await store.get_session(session.id) or session).updated_at >= ahead
