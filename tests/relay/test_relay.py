"""Relay: how many exchanges run at once, and what becomes of them when the process goes."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import MessagesState
from langgraph.types import interrupt
from support.chat_client import check_exchange, final_text, text_of
from support.held_agents import Hold, held_graph, held_tool_graph
from support.recorded_agents import echoing_graph, eventually, metric, one_node
from support.scripted_run import ScriptedRun
from support.sessions import USER, Event, Sessions, events_of, idle_relay, open_sessions, until

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.auth.user import User
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.errors import Overloaded, ShuttingDown, TooManyRuns
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.relay.backlog import Backlog
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.stores.base import SessionQuery


def asking_graph() -> CompiledGraph:
    def answer(state: MessagesState) -> dict[str, Any]:
        interrupt("Which one?")
        return {"messages": []}

    return one_node(answer)


async def begin_held(sessions: Sessions, hold: Hold, count: int, **fields: Any) -> list[ExchangeLog]:
    """Begin so many exchanges, which are then all held up."""
    logs = [await sessions.begin(f"hello {number}", **fields) for number in range(count)]
    await eventually(lambda: hold.held == count)
    return logs


async def interrupted(log: ExchangeLog) -> list[Event]:
    """The events of an exchange that was interrupted in the middle of its answer, which is stored as far as it came."""
    events = await events_of(log)
    check_exchange(events)
    final = events[-1]
    assert (final["status"], final["error"]["code"]) == ("interrupted", "interrupted")
    _, partial, error = final["messages"]
    assert (text_of(partial), partial["metadata"]["finish_reason"]) == ("one two ", "other")
    assert error["channel"] == "error"
    return events


async def test_what_is_being_admitted_counts_among_its_user_s(tmp_path: Path) -> None:
    """Asks that come together are all admitted before the first of them runs."""
    hold, limits = Hold(), LimitsSettings(running_per_user=2)
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, limits=limits) as sessions:
        begins = sessions.store.hold("begin_exchange")
        asks = [asyncio.create_task(sessions.begin(f"hello {number}")) for number in range(5)]
        done, admitted = await asyncio.wait(asks, timeout=0.2)
        assert [type(ask.exception()) for ask in done] == [TooManyRuns] * 3
        assert sessions.relay.running_count == 0 and len(admitted) == 2
        other = asyncio.create_task(sessions.begin("hello", user=User(id="bob", name="Bob")))
        begins.set()
        for ask in (*admitted, other):
            await ask
        await eventually(lambda: hold.held == 3)
        hold.released.set()
        for ask in (*admitted, other):
            await events_of(ask.result())


async def test_no_more_exchanges_run_than_may(tmp_path: Path) -> None:
    hold, limits = Hold(), LimitsSettings(max_running=2)
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, limits=limits) as sessions:
        [first, _] = await begin_held(sessions, hold, 2)
        for mode in ("chat", "query"):
            with pytest.raises(TooManyRuns) as refusal:
                await sessions.begin("one too many", mode=mode)
            assert refusal.value.retryable and refusal.value.retry_after_s
        page = await sessions.store.real.list_sessions(SessionQuery(user_id=USER.id))
        assert len(page.sessions) == 2, "what is refused leaves nothing"
        assert metric(sessions.kpi, "chat_running_exchanges") == 2
        hold.released.set()
        check_exchange(await events_of(first))
        await eventually(lambda: sessions.relay.running_count < 2)
        check_exchange(await sessions.ask("there is room again"))


async def test_where_too_much_waits_only_what_was_admitted_goes_on(tmp_path: Path) -> None:
    age_s = 0.0
    backlog = Backlog({"answer": lambda: age_s}, 1)
    agents = {"asking": asking_graph(), "echo": echoing_graph()}
    async with open_sessions(tmp_path, agents, backlog=backlog) as sessions:
        waiting = await sessions.begin("hello", client_exchange_id="mine")
        pending = await until(waiting, "awaiting_human")
        age_s = 2.0
        for mode in ("chat", "query"):
            with pytest.raises(Overloaded) as refusal:
                await sessions.begin("more", mode=mode, agent_id="echo")
            assert refusal.value.retry_after_s in (2, 3, 4)
        page = await sessions.store.real.list_sessions(SessionQuery(user_id=USER.id))
        assert len(page.sessions) == 1, "what is refused leaves nothing"
        assert await sessions.begin("hello", client_exchange_id="mine") is waiting, "what was asked is no new ask"
        decisions = HumanDecisions(answers={pending["payload"]["requests"][0]["interrupt_id"]: "this one"})
        await sessions.orchestrator.human_resume(USER, waiting.session_id, waiting.exchange_id, decisions, None)
        check_exchange(await events_of(waiting))
        age_s = 0.0
        check_exchange(await sessions.ask("there is room again", agent_id="echo"))


async def test_a_burst_of_asks_is_no_way_round_the_limit(tmp_path: Path) -> None:
    hold, limits = Hold(), LimitsSettings(max_running=3)
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, limits=limits) as sessions:
        outcomes = await asyncio.gather(*(sessions.begin("hello") for _ in range(20)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes].count(ExchangeLog) == 3
        assert [type(outcome) for outcome in outcomes].count(TooManyRuns) == 17


async def test_an_ask_that_is_sent_again_needs_no_room(tmp_path: Path) -> None:
    hold, limits = Hold(), LimitsSettings(max_running=1)
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, limits=limits) as sessions:
        [log] = await begin_held(sessions, hold, 1, client_exchange_id="mine")
        assert await sessions.begin("hello", client_exchange_id="mine") is log


async def test_what_runs_at_the_end_may_finish_and_nothing_begins(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, grace_s=60) as sessions:
        logs = await begin_held(sessions, hold, 3)
        closing = asyncio.create_task(sessions.relay.aclose())
        await eventually(lambda: sessions.relay.draining)
        with pytest.raises(ShuttingDown):
            await sessions.begin("too late")
        assert not closing.done()
        assert await sessions.orchestrator.view(USER, logs[0].exchange_id) is logs[0]
        hold.released.set()
        for log in logs:
            events = await events_of(log)
            check_exchange(events)
            assert final_text(events) == "one two three"
        await asyncio.wait_for(closing, 10)


@pytest.mark.parametrize("grace_s", [0, 0.1])
async def test_what_does_not_finish_is_interrupted_with_its_text_stored(tmp_path: Path, grace_s: float) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, grace_s=grace_s) as sessions:
        logs = await begin_held(sessions, hold, 3)
        await asyncio.wait_for(sessions.relay.aclose(), 10)
        for log in logs:
            assert log.final is not None, "the end is not over before"
            events = await interrupted(log)
            assert await sessions.stored(log.session_id) == events[-1]["messages"]
            assert (await sessions.session(log.session_id)).active_exchange_id is None
        assert hold.held == 0
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        events = await sessions.ask("again", session_id=logs[0].session_id, agent_id="echo")
        check_exchange(events)


async def test_a_tool_at_work_is_settled(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"working": held_tool_graph(hold)}, grace_s=0.1) as sessions:
        log = await sessions.begin("call work()")
        await eventually(lambda: hold.held)
        await asyncio.wait_for(sessions.relay.aclose(), 10)
        events = await events_of(log)
        check_exchange(events)
        assert events[-1]["status"] == "interrupted"
        assert hold.held == 0


async def test_what_waits_for_a_person_needs_no_grace_and_waits_on(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, {"asking": asking_graph()}, grace_s=3600) as sessions:
        log = await sessions.begin("hello")
        await until(log, "awaiting_human")
        await asyncio.wait_for(sessions.relay.aclose(), 10)
        assert log.final is None
        record = await sessions.record(log.exchange_id)
        assert record.status == "awaiting_human" and record.pending is not None


async def test_a_tool_that_ignores_its_cancellation_does_not_hold_up_the_end(tmp_path: Path) -> None:
    hold = Hold(ignores_cancel=True)
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, grace_s=0.1) as sessions:
        [log] = await begin_held(sessions, hold, 1)
        await asyncio.wait_for(sessions.relay.aclose(), 8)
        await interrupted(log)
        assert hold.held == 1
        hold.released.set()
        await eventually(lambda: hold.gone)


async def test_a_slow_store_behind_a_tool_that_ignores_its_cancellation_still_takes_the_end(tmp_path: Path) -> None:
    hold = Hold(ignores_cancel=True)
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, grace_s=0.1) as sessions:
        [log] = await begin_held(sessions, hold, 1)
        sessions.store.slow_down("append", 0.3)
        await asyncio.wait_for(sessions.relay.aclose(), 8)
        told = log.final is not None
        hold.released.set()
        await eventually(lambda: hold.gone)
        assert told, "whoever follows it sees it end before the sockets close"
        events = await interrupted(log)
        assert await sessions.stored(log.session_id) == events[-1]["messages"]


async def test_an_exchange_that_was_stopped_and_has_a_straggler_needs_no_grace(tmp_path: Path) -> None:
    hold = Hold(ignores_cancel=True)
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, grace_s=3600) as sessions:
        [log] = await begin_held(sessions, hold, 1)
        assert await sessions.service.cancel(USER, log.session_id or "")
        await asyncio.wait_for(sessions.relay.aclose(), 8)
        hold.released.set()
        await eventually(lambda: hold.gone)


async def test_an_ask_that_is_being_admitted_at_the_end_still_ends(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, grace_s=0.2) as sessions:
        admitted = sessions.store.hold("begin_exchange")
        ask = asyncio.create_task(sessions.begin("hello"))
        await asyncio.sleep(0.05)
        closing = asyncio.create_task(sessions.relay.aclose())
        await asyncio.sleep(0.05)
        admitted.set()
        log = await ask
        await asyncio.wait_for(closing, 10)
        assert (await events_of(log))[-1]["status"] == "interrupted"
        assert await sessions.store.real.running_exchanges() == []


async def test_the_text_is_stored_where_the_store_comes_back_within_the_grace(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, grace_s=30) as sessions:
        [log] = await begin_held(sessions, hold, 1)
        sessions.store.go_away()
        hold.released.set()
        await eventually(lambda: "append" in sessions.store.refused)
        closing = asyncio.create_task(sessions.relay.aclose())
        await asyncio.sleep(0.1)
        assert not closing.done()
        sessions.store.come_back()
        await asyncio.wait_for(closing, 10)
        assert (await events_of(log))[-1]["status"] == "ok"
        assert "one two three" in [text_of(message) for message in await sessions.stored(log.session_id)]


@pytest.mark.parametrize("stopped", [True, False])
async def test_a_store_that_stays_away_does_not_hold_up_the_end(
    tmp_path: Path, stopped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, grace_s=0.1) as sessions:
        [log] = await begin_held(sessions, hold, 1)
        sessions.store.go_away()
        if stopped:
            await sessions.orchestrator.stop(USER, None, log.exchange_id)
        await asyncio.wait_for(sessions.relay.aclose(), 8)
        assert log.final is None, "no end is shown that is not stored"
        [left] = [record for record in caplog.records if record.message == "exchange left to recovery"]
        assert vars(left)["exchange_id"] == log.exchange_id
        sessions.store.come_back()
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        assert (await sessions.stored_final(log.exchange_id)).status == "interrupted"


async def test_the_end_may_come_twice_and_with_nothing_running(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, {"echo": echoing_graph()}, grace_s=3600) as sessions:
        await sessions.ask("hello")
        for _ in range(2):
            await asyncio.wait_for(sessions.relay.aclose(), 5)
            assert sessions.relay.draining


async def test_few_ended_exchanges_are_kept_and_the_others_still_have_their_final(tmp_path: Path) -> None:
    room = 100_000
    async with open_sessions(tmp_path, {"echo": echoing_graph()}, keep_ended_bytes=room) as sessions:
        # Each log holds the question, the answer, and both again in the final.
        ended = [await sessions.ask(f"hello {number} " + room // 5 * "x") for number in range(5)]
        await asyncio.sleep(0)
        for place, events in enumerate(ended):
            seen = await sessions.orchestrator.view(USER, events[0]["exchange_id"])
            assert seen.is_stored_final is (place < len(ended) - 1)
            final = seen.final
            assert final is not None
            expected = {**events[-1], "session": None}
            assert {**final.model_dump(mode="json", exclude_none=True), "session": None} == expected


async def test_a_departure_that_is_cut_short_interrupts_at_once(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, grace_s=3600) as sessions:
        logs = await begin_held(sessions, hold, 3)
        closing = asyncio.create_task(sessions.relay.aclose())
        await asyncio.sleep(0.2)
        assert not closing.done()
        sessions.relay.drain.cut_short.set()
        await asyncio.wait_for(closing, 10)
        for log in logs:
            await interrupted(log)


async def test_what_goes_on_while_its_last_run_still_has_a_task_is_found_when_that_ends() -> None:
    """A graph that has paused may ignore that it is over; meanwhile a person has decided, and the exchange goes on."""
    relay = idle_relay()
    before = ScriptedRun.begin(relay, "e")
    before.settled.set()
    again = ScriptedRun(before.log)
    relay.start(again)
    assert relay.running("e") is again and relay.running_in("s") is again
    before.task_may_end.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert relay.running("e") is again and relay.running_in("s") is again
    again.finish()
    await eventually(lambda: relay.running_count == 0)
    assert relay.running_in("s") is None
    await relay.aclose()


async def test_what_runs_in_a_session_is_found_though_the_exchange_before_has_a_task() -> None:
    relay = idle_relay()
    before = ScriptedRun.begin(relay, "first")
    before.settled.set()
    after = ScriptedRun.begin(relay, "second")
    before.task_may_end.set()
    await eventually(lambda: relay.running_count == 1)
    assert relay.running_in("s") is after
    after.finish()
    await eventually(lambda: relay.running_count == 0)


async def test_of_a_deleted_session_nothing_is_found_though_somebody_still_reads_it() -> None:
    relay = idle_relay()
    run, other = ScriptedRun.begin(relay, "e"), ScriptedRun.begin(relay, "other", "another session")
    cursor = run.log.follow(0, lambda: None)
    for ended in (run, other):
        ended.finish()
    await eventually(lambda: relay.running_count == 0)
    other_cursor = other.log.follow(0, lambda: None)
    assert relay.find("e") is run.log
    relay.evict_session("s", ["e"])
    assert relay.find("e") is None
    assert relay.find("other") is other.log
    run.log.unfollow(cursor)
    other.log.unfollow(other_cursor)
