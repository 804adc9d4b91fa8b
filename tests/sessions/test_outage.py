"""What becomes of an exchange when the store goes away, and comes back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.chat_client import check_calls, check_exchange, final_text, text_of
from support.held_agents import Hold, held_graph, held_tool_graph
from support.noting_agent import noting_graph
from support.phrase_model import check_history
from support.recorded_agents import echoing_graph, eventually, metric
from support.sessions import USER, Event, Sessions, events_of, open_sessions, until

from agentic_backend.errors import SessionBusy, SessionNotFound, StoreUnavailable
from agentic_backend.protocol.events import Final
from agentic_backend.protocol.frames import Ask
from agentic_backend.sessions.history import restore_exchange
from agentic_backend.stores.mongo import MongoStore


@pytest.fixture
def hold() -> Hold:
    return Hold()


@pytest.fixture(params=["sqlite", *ON_MONGODB])
def mongodb(request: pytest.FixtureRequest) -> str | None:
    """The server to use; None for SQLite."""
    return None if request.param == "sqlite" else server_url(request.param, request)


@pytest.fixture
async def sessions(mongodb: str | None, tmp_path: Path, hold: Hold) -> AsyncIterator[Sessions]:
    agents = {"held": held_graph(hold), "working": held_tool_graph(hold), "echo": echoing_graph()}
    async with AsyncExitStack() as opened:
        database = None
        if mongodb is not None:
            url = await opened.enter_async_context(fresh_database(mongodb))
            database = await MongoStore.open(url, timeout_s=5)
        yield await opened.enter_async_context(open_sessions(tmp_path, agents, database=database))


async def not_stored(sessions: Sessions, events: list[Event]) -> None:
    """The exchange has failed for want of the store, and shows as stored exactly what is."""
    final = events[-1]
    assert [event["type"] for event in events][-2:] == ["error", "final"]
    assert (final["status"], final["error"]["code"]) == ("error", "store_unavailable")
    assert final["error"]["retryable"]
    streamed = [event["message"] for event in events if event["type"] == "stream"]
    assert streamed == final["messages"] == await sessions.stored(final["session_id"])
    seqs = [event["seq"] for event in events]
    assert seqs == sorted(set(seqs))


async def stored_late(sessions: Sessions, events: list[Event]) -> list[Event]:
    """Once the store is back, the exchange is stored as it ended; its messages."""
    final = events[-1]
    session = await sessions.idle(final["session_id"])
    record = await sessions.store.real.get_exchange(final["exchange_id"])
    assert record is not None and record.error is not None and record.ended_at is not None
    assert (record.status, record.error.code) == ("error", "store_unavailable")
    assert record.last_seq >= final["seq"]
    rows = await sessions.store.real.exchange_messages(final["exchange_id"])
    stored = [row.model_dump(mode="json") for row in rows]
    assert stored[: len(final["messages"])] == final["messages"]
    assert session.next_rank == session.message_count == len(await sessions.stored(session.id))
    check_calls(stored)
    assert [message["channel"] for message in stored].count("error") == 1
    check_history(restore_exchange(rows))
    return stored


async def goes_on(sessions: Sessions, session_id: str) -> None:
    events = await sessions.ask("and now?", session_id=session_id, agent_id="echo")
    check_exchange(events)
    assert final_text(events) == "echo: and now?"
    assert metric(sessions.kpi, "chat_running_exchanges") == 0


async def test_the_text_of_an_answer_is_stored_once_the_store_is_back(sessions: Sessions, hold: Hold) -> None:
    log = await sessions.begin("hello")
    await eventually(lambda: hold.held)
    sessions.store.go_away()
    hold.released.set()
    events = await events_of(log)
    await not_stored(sessions, events)
    assert "".join(event["text"] for event in events if event["type"] == "delta") == "one two three"
    sessions.store.come_back()
    _, answer, _ = await stored_late(sessions, events)
    assert text_of(answer) == "one two three"
    await goes_on(sessions, events[0]["session_id"])


async def test_the_result_of_a_tool_is_stored_once_the_store_is_back(sessions: Sessions, hold: Hold) -> None:
    log = await sessions.begin("call work()", agent_id="working")
    await eventually(lambda: hold.held)
    sessions.store.go_away()
    hold.released.set()
    events = await events_of(log)
    await not_stored(sessions, events)
    assert events[-1]["messages"][-1]["channel"] == "tool_call", "its result could not be stored"
    sessions.store.come_back()
    stored = await stored_late(sessions, events)
    [result] = [message["parts"][0] for message in stored if message["channel"] == "tool_result"]
    assert (result["ok"], result["content"]) == (True, "worked")
    await goes_on(sessions, events[0]["session_id"])


async def test_an_outage_that_is_over_before_anything_is_written_is_not_noticed(sessions: Sessions, hold: Hold) -> None:
    log = await sessions.begin("hello")
    await eventually(lambda: hold.held)
    with sessions.store.away():
        await asyncio.sleep(0.01)
    hold.released.set()
    events = await events_of(log)
    check_exchange(events)
    assert final_text(events) == "one two three"


async def test_a_stop_during_an_outage_ends_the_exchange(sessions: Sessions, hold: Hold) -> None:
    log = await sessions.begin("hello")
    await eventually(lambda: hold.held)
    sessions.store.go_away("append")
    assert await sessions.desk.cancel(USER, log.session_id or "")
    events = await events_of(log)
    await not_stored(sessions, events)
    sessions.store.come_back()
    _, partial, _ = await stored_late(sessions, events)
    assert text_of(partial) == "one two "
    await goes_on(sessions, events[0]["session_id"])


async def test_a_graph_that_fails_during_an_outage_still_ends(sessions: Sessions, tmp_path: Path) -> None:
    log = await sessions.begin("fail after 3 tokens", agent_id="working")
    sessions.store.go_away("append")
    events = await events_of(log)
    assert events[-1]["status"] == "error"
    sessions.store.come_back()
    await sessions.idle(log.session_id)
    await goes_on(sessions, events[0]["session_id"])


@pytest.mark.parametrize("operation", ["last_exchanges", "session_state"])
async def test_a_history_that_cannot_be_read_fails_the_exchange(tmp_path: Path, operation: str) -> None:
    async with open_sessions(tmp_path, {"noting": noting_graph()}, cache_size=1) as sessions:
        session_id = (await sessions.ask("note this"))[0]["session_id"]
        await sessions.ask("in another session")
        with sessions.store.away(operation):
            events = await sessions.ask("again", session_id=session_id)
        check_exchange(events)
        assert events[-1]["error"]["code"] == "store_unavailable"
        assert final_text(await sessions.ask("now", session_id=session_id)).startswith("2 this")


async def test_an_ask_is_refused_while_the_store_is_away_and_leaves_nothing(sessions: Sessions) -> None:
    with sessions.store.away(), pytest.raises(StoreUnavailable):
        await sessions.begin("hello")
    assert not await sessions.store.real.running_exchanges()
    assert sessions.relay.running_count == 0
    check_exchange(await sessions.ask("hello", agent_id="echo"))


async def test_the_same_ask_can_be_sent_again_after_an_outage(sessions: Sessions) -> None:
    with sessions.store.away(), pytest.raises(StoreUnavailable):
        await sessions.begin("hello", client_exchange_id="mine", agent_id="echo")
    check_exchange(await sessions.ask("hello", client_exchange_id="mine", agent_id="echo"))


async def test_a_query_needs_no_store(sessions: Sessions) -> None:
    with sessions.store.away():
        events = await sessions.ask("hello", mode="query", agent_id="echo")
    check_exchange(events)
    assert (events[-1]["status"], final_text(events)) == ("ok", "echo: hello")


async def test_a_session_that_is_deleted_before_its_text_is_stored_stays_deleted(
    sessions: Sessions, hold: Hold
) -> None:
    log = await sessions.begin("hello")
    await eventually(lambda: hold.held)
    sessions.store.go_away("append")
    hold.released.set()
    events = await events_of(log)
    await not_stored(sessions, events)
    await sessions.desk.delete(USER, log.session_id or "")
    sessions.store.come_back()
    await eventually(lambda: sessions.relay.running_count == 0)
    with pytest.raises(SessionNotFound):
        await sessions.desk.get(USER, log.session_id or "")
    assert await sessions.stored(log.session_id) == []


async def test_many_exchanges_survive_an_outage(sessions: Sessions, hold: Hold) -> None:
    logs = [await sessions.begin(f"hello {number}") for number in range(20)]
    await eventually(lambda: hold.held == 20)
    sessions.store.go_away()
    hold.released.set()
    ended = await asyncio.gather(*map(events_of, logs))
    sessions.store.come_back()
    for events in ended:
        stored = await stored_late(sessions, events)
        assert text_of(stored[1]) == "one two three"
    await goes_on(sessions, ended[0][0]["session_id"])


async def test_a_mistake_of_the_store_itself_still_ends_the_exchange(
    sessions: Sessions, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def append(*args: Any) -> None:
        raise ValueError("a bug")

    log = await sessions.begin("hello")
    await eventually(lambda: hold.held)
    monkeypatch.setattr(sessions.store.real, "append", append)
    hold.released.set()
    events = await events_of(log)
    assert (events[-1]["status"], events[-1]["error"]["code"]) == ("error", "internal")
    monkeypatch.undo()
    await sessions.idle(log.session_id)
    await goes_on(sessions, events[0]["session_id"])


async def test_a_write_whose_answer_is_lost_is_not_written_twice(sessions: Sessions, hold: Hold) -> None:
    """The store has done it, and the server can't know."""
    log = await sessions.begin("call work()", agent_id="working")
    await until(log, "started")
    sessions.store.lose_next_answer("append")
    await eventually(lambda: hold.held)
    hold.released.set()
    events = await events_of(log)
    await sessions.idle(log.session_id)
    stored = await sessions.stored(log.session_id)
    check_calls(stored)
    assert [message["rank"] for message in stored] == list(range(len(stored)))
    assert [message["channel"] for message in stored].count("tool_call") == 1
    assert events[-1]["error"]["code"] == "store_unavailable"
    await goes_on(sessions, events[0]["session_id"])


async def test_an_end_whose_answer_is_lost_is_neither_written_nor_shown_otherwise(
    sessions: Sessions, hold: Hold
) -> None:
    log = await sessions.begin("hello")
    await eventually(lambda: hold.held)
    sessions.store.lose_next_answer("append")
    hold.released.set()
    events = await events_of(log)
    await sessions.idle(log.session_id)
    await eventually(lambda: sessions.relay.running_count == 0)
    assert [text_of(message) for message in await sessions.stored(log.session_id)] == ["hello", "one two three"]
    check_exchange(events)
    assert events[-1]["status"] == "ok", "what is shown is what is stored"
    await goes_on(sessions, events[0]["session_id"])


@pytest.mark.parametrize("new_session", [True, False])
async def test_an_ask_whose_answer_is_lost_can_be_sent_again(sessions: Sessions, new_session: bool) -> None:
    """It was refused, though the store has begun it: it never runs, and blocks nothing."""
    session_id = None if new_session else (await sessions.ask("before", agent_id="echo"))[0]["session_id"]
    sessions.store.lose_next_answer("begin_exchange")
    with pytest.raises(StoreUnavailable):
        await sessions.begin("hello", session_id=session_id, client_exchange_id="mine", agent_id="echo")
    ask = Ask(message="hello", session_id=session_id, client_exchange_id="mine", agent_id="echo")
    final = await sessions.orchestrator.ask(USER, ask, None, "request")
    assert isinstance(final, Final)
    assert final.error is not None and final.error.code == "interrupted"
    await goes_on(sessions, final.session_id or "")


async def test_a_session_is_not_busy_with_what_never_ran(sessions: Sessions) -> None:
    session_id = (await sessions.ask("before", agent_id="echo"))[0]["session_id"]
    sessions.store.lose_next_answer("begin_exchange")
    with pytest.raises(StoreUnavailable):
        await sessions.begin("hello", session_id=session_id)
    await goes_on(sessions, session_id)


async def test_a_session_is_busy_with_what_runs(sessions: Sessions, hold: Hold) -> None:
    log = await sessions.begin("hello")
    outcomes = await asyncio.gather(
        *(sessions.begin("again", session_id=log.session_id) for _ in range(10)), return_exceptions=True
    )
    assert {type(outcome) for outcome in outcomes} == {SessionBusy}
    hold.released.set()
    check_exchange(await events_of(log))
    await sessions.idle(log.session_id)
    hold.released.clear()
    outcomes = await asyncio.gather(
        *(sessions.begin("again", session_id=log.session_id) for _ in range(10)), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ExchangeLog", *["SessionBusy"] * 9]
    hold.released.set()


async def test_a_client_that_comes_later_is_given_what_was_stored_late(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, keep_ended_bytes=0) as sessions:
        log = await sessions.begin("hello")
        await eventually(lambda: hold.held)
        sessions.store.go_away()
        hold.released.set()
        events = await events_of(log)
        sessions.store.come_back()
        stored = await stored_late(sessions, events)
        await eventually(lambda: sessions.relay.running_count == 0)
        final = await sessions.orchestrator.view(USER, log.exchange_id)
        assert isinstance(final, Final)
        assert [message.model_dump(mode="json") for message in final.messages] == stored
        assert final.seq >= events[-1]["seq"]
