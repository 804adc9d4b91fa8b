"""What becomes of an exchange when the store goes away, and comes back."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.chat_client import check_exchange, final_text, text_of
from support.held_agents import Hold, held_graph
from support.noting_agent import noting_graph
from support.outages import ends_as_stored, goes_on, shows_no_end, words_are_kept
from support.recorded_agents import echoing_graph, eventually
from support.sessions import USER, Sessions, events_of, open_sessions

from agentic_backend.errors import SessionBusy, SessionNotFound, StoreUnavailable
from agentic_backend.exchange import exchange


async def test_the_text_of_an_answer_is_stored_once_the_store_is_back(sessions: Sessions, hold: Hold) -> None:
    log = await sessions.begin("hello")
    await eventually(lambda: hold.held)
    sessions.store.go_away()
    hold.released.set()
    # Others are refused too: only its own write comes after all of its text.
    await eventually(lambda: "append" in sessions.store.refused)
    await shows_no_end(sessions, log)
    assert [text.text for text in log.partial] == ["one two three"], "it is shown as it is written"
    sessions.store.come_back()
    _, answer = await ends_as_stored(sessions, log, "ok")
    assert text_of(answer) == "one two three"
    await goes_on(sessions, log.session_id)


async def test_a_graph_goes_on_while_the_result_of_its_tool_waits_for_the_store(sessions: Sessions, hold: Hold) -> None:
    log = await sessions.begin("call work()", agent_id="working")
    # The tool may be at work before its call is stored.
    await eventually(lambda: hold.held and log.messages[-1].channel == "tool_call")
    sessions.store.go_away()
    hold.released.set()
    await shows_no_end(sessions, log)
    assert log.messages[-1].channel == "tool_call", "its result could not be stored"
    sessions.store.come_back()
    stored = await ends_as_stored(sessions, log, "ok")
    [result] = [message["parts"][0] for message in stored if message["channel"] == "tool_result"]
    assert (result["ok"], result["content"]) == (True, "worked")
    await goes_on(sessions, log.session_id)


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
    stopping = asyncio.create_task(sessions.service.cancel(USER, log.session_id or ""))
    await shows_no_end(sessions, log)
    assert not stopping.done()
    sessions.store.come_back()
    assert await stopping
    _, partial = await ends_as_stored(sessions, log, "stopped")
    assert text_of(partial) == "one two "
    await goes_on(sessions, log.session_id)


async def test_a_graph_that_fails_during_an_outage_still_ends(sessions: Sessions) -> None:
    log = await sessions.begin("fail after 3 tokens", agent_id="working")
    sessions.store.go_away("append")
    await shows_no_end(sessions, log)
    sessions.store.come_back()
    stored = await ends_as_stored(sessions, log, "error")
    assert [message["channel"] for message in stored].count("error") == 1
    await goes_on(sessions, log.session_id)


async def test_an_outage_that_lasts_too_long_fails_what_runs(
    sessions: Sessions, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await sessions.begin("call work()", agent_id="working")
    sessions.store.go_away("append")
    await eventually(lambda: hold.held and "append" in sessions.store.refused)
    running, clock = sessions.relay.running(log.exchange_id), asyncio.get_running_loop().time
    # It lasts too long once the tool is at work, however long that took.
    monkeypatch.setattr(running, "_clock", lambda: clock() + exchange.LONGEST_OUTAGE_S)
    await eventually(lambda: hold.gone)
    assert log.final is None
    sessions.store.come_back()
    stored = await ends_as_stored(sessions, log, "error")
    assert log.final is not None and log.final.error is not None
    assert (log.final.error.code, log.final.error.retryable) == ("store_unavailable", True)
    assert [message["channel"] for message in stored] == ["final", "tool_call", "tool_result", "error"]


async def test_a_process_that_goes_during_an_outage_shows_no_end_and_recovery_does(tmp_path: Path) -> None:
    hold = Hold()
    agents = {"held": held_graph(hold)}
    async with open_sessions(tmp_path, agents) as sessions:
        log = await sessions.begin("hello")
        await words_are_kept(sessions, log.exchange_id)
        sessions.store.go_away()
        hold.released.set()
        await shows_no_end(sessions, log)
    assert log.final is None
    async with open_sessions(tmp_path, agents) as sessions:
        final = await sessions.stored_final(log.exchange_id)
        assert final.status == "interrupted"
        assert [message.model_dump(mode="json") for message in final.messages] == await sessions.stored(log.session_id)
        assert text_of(final.messages[1].model_dump(mode="json")) == "one two "


@pytest.mark.parametrize("operation", ["last_exchanges", "session_state"])
async def test_a_history_that_cannot_be_read_fails_the_exchange(tmp_path: Path, operation: str) -> None:
    async with open_sessions(tmp_path, {"noting": noting_graph()}, cache_size=1) as sessions:
        session_id = (await sessions.ask("note this"))[0]["session_id"]
        # Its messages come from the stored ones; the others from what the graph left.
        await sessions.ask("fail", session_id=session_id)
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
    """Whoever deletes it elsewhere doesn't wait for what runs here."""
    log = await sessions.begin("hello")
    await eventually(lambda: hold.held)
    sessions.store.go_away("append")
    hold.released.set()
    await shows_no_end(sessions, log)
    await sessions.store.real.delete_session(log.session_id or "")
    sessions.store.come_back()
    assert (await events_of(log))[-1]["error"]["code"] == "interrupted"
    await eventually(lambda: sessions.relay.running_count == 0)
    with pytest.raises(SessionNotFound):
        await sessions.service.get(USER, log.session_id or "")
    assert await sessions.stored(log.session_id) == []


async def test_a_session_is_deleted_once_its_text_is_stored(sessions: Sessions, hold: Hold) -> None:
    log = await sessions.begin("hello")
    await eventually(lambda: hold.held)
    sessions.store.go_away("append")
    deleting = asyncio.create_task(sessions.service.delete(USER, log.session_id or ""))
    await shows_no_end(sessions, log)
    sessions.store.come_back()
    await deleting
    assert (await events_of(log))[-1]["status"] == "stopped"
    assert await sessions.stored(log.session_id) == []


async def test_many_exchanges_survive_an_outage(sessions: Sessions, hold: Hold) -> None:
    logs = [await sessions.begin(f"hello {number}") for number in range(20)]
    await eventually(lambda: hold.held == 20)
    sessions.store.go_away()
    hold.released.set()
    await eventually(lambda: len(sessions.store.refused) > 60)
    sessions.store.come_back()
    for log in logs:
        stored = await ends_as_stored(sessions, log, "ok")
        assert text_of(stored[1]) == "one two three"
    await goes_on(sessions, logs[0].session_id)


async def test_a_mistake_of_the_store_itself_leaves_the_exchange_to_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def append(*args: Any, **kwargs: Any) -> None:
        raise ValueError("a bug")

    hold = Hold()
    agents = {"held": held_graph(hold), "echo": echoing_graph()}
    async with open_sessions(tmp_path, agents, lease_s=0.6) as sessions:
        log = await sessions.begin("hello")
        await eventually(lambda: hold.held)
        monkeypatch.setattr(sessions.store.real, "append", append)
        hold.released.set()
        await eventually(lambda: sessions.relay.running_count == 0)
        assert log.final is None
        monkeypatch.undo()
        await sessions.idle(log.session_id)
        final = (await events_of(log))[-1]
        assert (final["status"], final["messages"]) == ("interrupted", await sessions.stored(log.session_id))
        await goes_on(sessions, log.session_id)


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
        await shows_no_end(sessions, log)
        sessions.store.come_back()
        stored = await ends_as_stored(sessions, log, "ok")
        await eventually(lambda: sessions.relay.running_count == 0)
        final = await sessions.stored_final(log.exchange_id)
        assert [message.model_dump(mode="json") for message in final.messages] == stored
        assert log.final is not None and final.seq == log.final.seq
