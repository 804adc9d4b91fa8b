"""What every store does with sessions."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.messages import Channel, ExchangeStatus, Role, SessionState
from agentic_backend.protocol.parts import CodePart, ToolResultPart
from agentic_backend.stores.base import Completion, FencedOut, SessionChange, SessionQuery, Store, cursor_after
from agentic_backend.stores.records import MessageDraft, SessionRecord
from tests.stores.samples import (
    EPOCH,
    a_checkpoint,
    a_kpi,
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
)


async def listed(store: Store, user_id: str, **query: Any) -> list[str]:
    page = await store.list_sessions(SessionQuery(user_id, **query))
    assert page.next_cursor is None
    return [session.id for session in page.sessions]


async def created(store: Store, *sessions: SessionRecord) -> list[str]:
    for session in sessions:
        await store.create_session(session)
    return [session.id for session in sessions]


async def test_a_session_comes_back_as_it_was_stored(store: Store) -> None:
    session = a_session(
        title="Où est le café ? 🙂",
        state=SessionState.COMPLETED,
        ended_at=EPOCH + timedelta(microseconds=1),
        next_rank=3,
        message_count=3,
        chat_profile="brief",
        active_exchange_id="e",
        scope={"assignment": "essay"},
        submission_id="submission-7",
    )
    await store.create_session(session)
    assert await store.get_session(session.id) == session


async def test_there_is_no_session_under_an_unknown_id(store: Store) -> None:
    assert await store.get_session(new_id()) is None
    assert await store.session_state(new_id()) is None
    assert await store.name_session(new_id(), "Title") == []
    assert await store.change_session(new_id(), SessionChange(title="Title")) == []
    assert await store.complete_session(new_id(), EPOCH) is None
    await store.delete_session(new_id())


async def test_sessions_are_listed_by_their_last_activity(store: Store) -> None:
    user = new_id()
    sessions = [a_session(user, minute=minute) for minute in (2, 3, 1)]
    two, three, one = await created(store, *sessions)
    assert await listed(store, user) == [three, two, one]
    await run_exchanges(store, sessions[2], 1)
    assert await listed(store, user) == [one, three, two]


async def test_a_list_holds_only_what_is_asked_for(store: Store) -> None:
    user = new_id()
    done, other, own = await created(
        store,
        a_session(user, minute=2, state=SessionState.COMPLETED),
        a_session(user, minute=1, agent_id="other"),
        a_session(user),
    )
    await created(store, a_session(new_id()))
    assert await listed(store, user) == [done, other, own]
    assert await listed(store, user, agent_id="other") == [other]
    assert await listed(store, user, state=SessionState.ACTIVE) == [other, own]
    assert await listed(store, user, agent_id="assistant", state=SessionState.ACTIVE) == [own]
    assert await listed(store, user, agent_id="none") == []


async def test_pages_hold_each_session_once_also_where_times_are_equal(store: Store) -> None:
    user = new_id()
    ids = await created(store, *(a_session(user, minute=number // 4) for number in range(10)))
    for limit in (1, 3, 5, 9):
        found: list[str] = []
        cursor = None
        while True:
            page = await store.list_sessions(SessionQuery(user, limit=limit, cursor=cursor))
            assert 0 < len(page.sessions) <= limit
            found += [session.id for session in page.sessions]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert sorted(found) == sorted(ids)
    page = await store.list_sessions(SessionQuery(user, limit=10))
    assert len(page.sessions) == 10 and page.next_cursor is None


async def test_a_session_that_moves_to_the_front_disturbs_no_later_page(store: Store) -> None:
    user = new_id()
    sessions = [a_session(user, minute=minute) for minute in (4, 3, 2, 1)]
    ids = await created(store, *sessions)
    first = await store.list_sessions(SessionQuery(user, limit=2))
    await run_exchanges(store, sessions[3], 1)
    second = await store.list_sessions(SessionQuery(user, limit=2, cursor=first.next_cursor))
    assert [session.id for session in first.sessions + second.sessions] == ids[:3]


@pytest.mark.parametrize("cursor", ["", "x", "é", "AAAA", "W10=", "WyJ5ZXN0ZXJkYXkiLCJhIl0=", "bnVsbA=="])
async def test_a_foreign_cursor_is_a_bad_frame(store: Store, cursor: str) -> None:
    with pytest.raises(BadFrame, match=r"^cursor: "):
        await store.list_sessions(SessionQuery("ann", cursor=cursor))


async def test_a_cursor_outlives_its_session(store: Store) -> None:
    user = new_id()
    older = a_session(user, minute=1)
    await store.create_session(older)
    gone = a_session(user, minute=2)
    page = await store.list_sessions(SessionQuery(user, cursor=cursor_after(gone)))
    assert page.sessions == [older]


async def test_a_search_finds_titles_and_texts_whatever_their_case(store: Store) -> None:
    user = new_id()
    titled, texted = a_session(user, minute=1, title="Ein ÜBERBLICK"), a_session(user)
    await created(store, titled, texted)
    fence = await begin(store, texted)
    code = MessageDraft(role=Role.ASSISTANT, channel=Channel.OBSERVATION, parts=[CodePart(code="SELECT Überall")])
    result = MessageDraft(
        role=Role.TOOL, channel=Channel.TOOL_RESULT, parts=[ToolResultPart(call_id="c", content="Straße 7")]
    )
    await store.append(fence, [code, result, answer("An answer")])
    assert await listed(store, user, text="überblick") == [titled.id]
    assert await listed(store, user, text="ÜBER") == [texted.id, titled.id]
    assert await listed(store, user, text="strasse") == [texted.id]
    assert await listed(store, user, text="an ANSWER") == [texted.id]
    assert await listed(store, user, text="absent") == []


async def test_a_search_takes_every_character_literally(store: Store) -> None:
    user = new_id()
    titles = ["100% sure", "100 sure", "a_b", "axb", r"c\d", "cd", "it's", '"q"', "(a+b)*"]
    ids = dict(zip(titles, await created(store, *(a_session(user, title=title) for title in titles)), strict=True))
    for text in ("100%", "a_b", "c\\", "'", '"', "(a+b)*"):
        matching = [ids[title] for title in titles if text in title]
        assert await listed(store, user, text=text) == matching, text
    assert len(await listed(store, user, text="")) == len(titles)


async def test_a_search_never_finds_another_users_texts(store: Store) -> None:
    secret = new_id()
    fence = await begin_new(store, "bob")
    await store.append(fence, [answer(secret)])
    await store.change_session(fence.session_id, SessionChange(title=f"About {secret}"))
    assert await listed(store, new_id(), text=secret) == []
    assert await listed(store, "bob", text=secret) == [fence.session_id]


async def test_a_search_is_paged_like_any_list(store: Store) -> None:
    user = new_id()
    ids = await created(
        store,
        *(a_session(user, minute=-minute, title=f"{'even' if minute % 2 == 0 else 'odd'}") for minute in range(8)),
    )
    first = await store.list_sessions(SessionQuery(user, text="even", limit=2))
    second = await store.list_sessions(SessionQuery(user, text="even", limit=2, cursor=first.next_cursor))
    assert [session.id for session in first.sessions + second.sessions] == ids[::2]
    assert second.next_cursor is None


async def test_a_new_title_changes_nothing_else(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    [renamed] = await store.change_session(session.id, SessionChange(title="Weather"))
    assert renamed == replace(session, title="Weather", unnamed=False) == await store.get_session(session.id)


@pytest.mark.parametrize("named_as", ["Mine", "New chat"])
async def test_a_provisional_title_is_replaced_once_and_a_name_never(store: Store, named_as: str) -> None:
    session = a_session(title="New chat", unnamed=True)
    await store.create_session(session)
    named = replace(session, title=named_as, unnamed=False)
    assert await store.name_session(session.id, named_as) == [named]
    assert await store.get_session(session.id) == named
    assert await store.name_session(session.id, "Late") == []
    assert await store.get_session(session.id) == named
    assert await store.change_session(session.id, SessionChange(title="Again"))


@pytest.mark.parametrize("unnamed", [False, None])
async def test_the_title_of_a_session_that_is_not_known_to_be_unnamed_stays(store: Store, unnamed: bool | None) -> None:
    session = a_session(title="New chat", unnamed=unnamed)
    await store.create_session(session)
    assert await store.name_session(session.id, "Late") == []
    assert await store.get_session(session.id) == session


async def test_a_search_knows_the_new_title_only(store: Store) -> None:
    user = new_id()
    session = a_session(user, title="Before")
    await store.create_session(session)
    await store.change_session(session.id, SessionChange(title="After"))
    assert await listed(store, user, text="before") == []
    assert await listed(store, user, text="after") == [session.id]


async def test_a_session_is_completed_once(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    at = EPOCH + timedelta(days=1)
    completed = await store.complete_session(session.id, at)
    expected = {"state": SessionState.COMPLETED, "ended_at": at, "updated_at": at}
    assert completed is not None and completed == Completion(replace(session, **expected), is_new=True)
    again = await store.complete_session(session.id, at - timedelta(hours=1))
    assert again == Completion(completed.session, is_new=False)
    assert await store.get_session(session.id) == completed.session


async def test_a_deleted_session_leaves_only_its_kpis(store: Store) -> None:
    user = new_id()
    session, kept = a_session(user), a_session(user)
    await created(store, session, kept)
    record = a_kpi(user)
    first = await begin(store, session, client_exchange_id="c1")
    await store.append(first, [answer()], an_end(kpi=record, session_state=b"state"))
    await store.append(
        await begin(store, session), [answer()], an_end(ExchangeStatus.INTERRUPTED), a_checkpoint(b"secret")
    )
    running = await begin(store, session, owner="one")
    (remaining,) = await run_exchanges(store, kept, 1)

    await store.delete_session(session.id)

    assert await store.get_session(session.id) is None
    assert await store.session_state(session.id) is None
    assert await store.messages_after(session.id, -1, 100) == []
    assert await store.last_exchanges(session.id, 5) == []
    for exchange_id in (first.exchange_id, running.exchange_id):
        assert await store.get_exchange(exchange_id) is None
        assert await store.exchange_messages(exchange_id) == []
        assert await store.checkpoint(exchange_id) is None
    assert await store.fence(session.id) is None
    assert running.exchange_id not in [exchange.id for exchange in await store.running_exchanges()]
    assert await store.find_exchange(user, "c1") is None
    with pytest.raises(FencedOut):
        await store.append(running, [answer()], an_end())
    assert await kpis_of(store, user) == as_kpis(record)
    assert await listed(store, user) == [kept.id]
    assert len(await store.exchange_messages(remaining)) == 2


async def test_a_running_exchange_of_a_completed_session_can_still_end(store: Store) -> None:
    session = a_session()
    exchange = an_exchange(session)
    begun = await store.begin_exchange(exchange, question(), session)
    completed = await store.complete_session(session.id, EPOCH)
    assert completed is not None and completed.session.active_exchange_id == exchange.id
    written = await store.append(fence_after(begun, exchange.id), [answer()], an_end())
    assert (written.session.state, written.session.active_exchange_id) == (SessionState.COMPLETED, None)


async def test_a_user_s_empty_sessions_are_counted(store: Store) -> None:
    user = new_id()
    sessions = [a_session(user) for _ in range(3)]
    for session in [*sessions, a_session(new_id())]:
        await store.create_session(session)
    assert await store.count_empty_sessions(user) == 3
    await begin(store, sessions[0])
    await store.complete_session(sessions[1].id, EPOCH)
    assert await store.count_empty_sessions(user) == 2, "a completed one is empty too"
    await store.delete_session(sessions[1].id)
    assert await store.count_empty_sessions(user) == 1
    assert await store.count_empty_sessions(new_id()) == 0
