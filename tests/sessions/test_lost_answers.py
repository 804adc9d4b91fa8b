"""What becomes of an exchange when the store does what it is asked, and its answer gets lost."""

import asyncio
from pathlib import Path

import pytest
from support.chat_client import check_exchange, text_of
from support.held_agents import Hold, held_graph
from support.outages import ends_as_stored, goes_on, shows_no_end
from support.recorded_agents import eventually
from support.sessions import USER, Sessions, events_of, idle_relay, open_sessions, until

from agentic_backend.errors import StoreUnavailable
from agentic_backend.exchange.end.orphan_closing import OrphanClosing
from agentic_backend.exchange.lifecycle import INTERRUPTED
from agentic_backend.kpi import Kpi


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_a_stop_is_kept_though_the_process_then_goes(tmp_path: Path, lost: str) -> None:
    """The interruption that comes later does not take its place."""
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}) as sessions:
        log = await sessions.begin("hello")
        await eventually(lambda: hold.held)
        lose = sessions.store.lose_next_request if lost == "request" else sessions.store.lose_next_answer
        lose("append")
        running = sessions.relay.running(log.exchange_id)
        assert running is not None
        running.stop()
        running.interrupt()
        await ends_as_stored(sessions, log, "stopped")


async def test_a_write_whose_answer_is_lost_is_not_written_twice(sessions: Sessions, hold: Hold) -> None:
    """The store has done it, and the server can't know."""
    log = await sessions.begin("call work()", agent_id="working")
    await until(log, "started")
    sessions.store.lose_next_answer("append")
    await eventually(lambda: hold.held)
    hold.released.set()
    stored = await ends_as_stored(sessions, log, "ok")
    assert [message["rank"] for message in stored] == list(range(len(stored)))
    assert [message["channel"] for message in stored].count("tool_call") == 1
    await goes_on(sessions, log.session_id)


async def test_who_was_taken_for_dead_during_an_outage_shows_the_end_that_is_stored(
    sessions: Sessions, hold: Hold
) -> None:
    """Another instance has ended it, and the answers to what was written before are lost: nothing is written over."""
    log = await sessions.begin("call work()", agent_id="working")
    await eventually(lambda: hold.held)
    sessions.store.go_away("append")
    hold.released.set()
    await shows_no_end(sessions, log)
    record = await sessions.store.real.get_exchange(log.exchange_id)
    assert record is not None
    await OrphanClosing(sessions.store.real, idle_relay(), Kpi(), lambda *_: None).close(record, INTERRUPTED)
    closed = await sessions.stored(log.session_id)
    sessions.store.come_back()
    events = await events_of(log)
    assert [event["type"] for event in events] == ["reset", "final"]
    assert events[-1]["status"] == "interrupted"
    assert events[-1]["messages"] == closed == await sessions.stored(log.session_id)
    await goes_on(sessions, log.session_id)


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
    """It was refused, though the store has begun it: asked again, it is the one that runs."""
    session_id = None if new_session else (await sessions.ask("before", agent_id="echo"))[0]["session_id"]
    sessions.store.lose_next_answer("begin_exchange")
    with pytest.raises(StoreUnavailable):
        await sessions.begin("hello", session_id=session_id, client_exchange_id="mine", agent_id="echo")
    begun = await sessions.store.real.find_exchange(USER.id, "mine")
    fields = {"session_id": session_id, "client_exchange_id": "mine", "agent_id": "echo"}
    logs = await asyncio.gather(*(sessions.begin("hello", **fields) for _ in range(3)))
    assert begun is not None and {log.exchange_id for log in logs} == {begun.id}
    check_exchange(await events_of(logs[0]))
    asked, _ = (await ends_as_stored(sessions, logs[0], "ok"))[-2:]
    assert text_of(asked) == "hello"
    await goes_on(sessions, logs[0].session_id)


async def test_a_session_is_not_busy_with_what_never_ran(sessions: Sessions) -> None:
    session_id = (await sessions.ask("before", agent_id="echo"))[0]["session_id"]
    sessions.store.lose_next_answer("begin_exchange")
    with pytest.raises(StoreUnavailable):
        await sessions.begin("hello", session_id=session_id)
    await goes_on(sessions, session_id)
