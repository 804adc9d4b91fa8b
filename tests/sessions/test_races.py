"""Two things at the same moment: a stop, a decision, a pause, an end. One of them counts, and nothing is lost of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import START, StateGraph, add_messages
from langgraph.types import interrupt
from support.connected_sessions import connected
from support.held_agents import Hold, held_graph
from support.sessions import PATIENCE_S, USER, Sessions, events_of, open_sessions, until
from typing_extensions import TypedDict

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.errors import ApprovalNotFound, SessionCompleted
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.protocol.messages import ExchangeStatus, SessionState
from agentic_backend.relay.log.exchange_log import ExchangeLog


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def approved_graph(hold: Hold) -> CompiledGraph:
    """Asks whether it may, and then works until `hold` lets it go."""

    async def ask(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(f"I may: {interrupt('May I?')}.")]}

    async def work(state: State) -> dict[str, Any]:
        await hold.wait()
        return {"messages": [AIMessage("worked")]}

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_node("work", work)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "work")
    return graph.compile()


@pytest.fixture
def hold() -> Hold:
    return Hold()


@pytest.fixture
async def sessions(tmp_path: Path, hold: Hold) -> AsyncIterator[Sessions]:
    async with open_sessions(tmp_path, {"approved": approved_graph(hold), "held": held_graph(hold)}) as sessions:
        yield sessions


async def question_of(sessions: Sessions, log: ExchangeLog) -> str:
    """What the exchange waits for, as the store has it, which may be before the exchange has heard that."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            record = await sessions.store.real.get_exchange(log.exchange_id)
            assert record is not None
            if record.status is ExchangeStatus.AWAITING_HUMAN and record.pending is not None:
                return record.pending.requests[0].interrupt_id
            await asyncio.sleep(0.01)


async def decide(sessions: Sessions, log: ExchangeLog) -> ExchangeLog:
    payload = HumanDecisions(answers={await question_of(sessions, log): "yes"})
    return await sessions.orchestrator.human_resume(USER, log.session_id, log.exchange_id, payload, None)


async def status_of(sessions: Sessions, log: ExchangeLog) -> str:
    record = await sessions.store.real.get_exchange(log.exchange_id)
    assert record is not None
    return record.status


async def holds(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def check_one_end(sessions: Sessions, log: ExchangeLog, status: str) -> None:
    """It has ended in `status` for who follows it, for who comes later, and in the store."""
    events = await events_of(log)
    assert [event["status"] for event in events if event["type"] == "final"] == [status]
    assert events[-1]["type"] == "final", "nothing comes after the final"
    assert await status_of(sessions, log) == status
    assert await sessions.stored(log.session_id) == events[-1]["messages"]
    assert (await sessions.session(log.session_id)).active_exchange_id is None


async def test_a_stop_by_what_was_read_before_a_decision_stops_what_runs_since(sessions: Sessions, hold: Hold) -> None:
    log = await sessions.begin("hello", agent_id="approved")
    await until(log, "awaiting_human")
    read = sessions.store.hold_answer("get_exchange", 2)
    stop = asyncio.create_task(sessions.orchestrator.stop(USER, log.session_id, None))
    await read.reached.wait()
    await decide(sessions, log)
    await holds(lambda: hold.held == 1)
    read.released.set()
    assert await stop is log
    await holds(lambda: hold.gone == 1)
    await check_one_end(sessions, log, "stopped")


async def test_an_end_by_what_was_read_before_leaves_the_next_exchange_alone(sessions: Sessions, hold: Hold) -> None:
    """Of two who end what a dead instance ran, the slower one finds another exchange in its session."""
    log = await sessions.begin("hello", agent_id="approved")
    await until(log, "awaiting_human")
    dead = await sessions.store.real.get_exchange(log.exchange_id)
    assert dead is not None
    await sessions.store.real.decide(dead, (), "dead")
    read = sessions.store.hold_answer("running_exchanges")
    slow = asyncio.create_task(sessions.maintenance.recover_all())
    await read.reached.wait()
    await sessions.maintenance.recover_all()
    assert await status_of(sessions, log) == "interrupted"
    after = await sessions.begin("and on", session_id=log.session_id, agent_id="held")
    await holds(lambda: hold.held == 1)
    read.released.set()
    await slow
    hold.released.set()
    assert (await events_of(after))[-1]["status"] == "ok"
    assert await status_of(sessions, after) == "ok"


async def test_what_was_stopped_is_not_interrupted_by_what_comes_later(sessions: Sessions, hold: Hold) -> None:
    """Else it would go on by itself, where its agent may."""
    log = await sessions.begin("hello", agent_id="held")
    await holds(lambda: hold.held == 1)
    running = sessions.relay.running(log.exchange_id)
    assert running is not None
    running.stop()
    running.interrupt()
    await check_one_end(sessions, log, "stopped")
    assert await sessions.store.real.checkpoint(log.exchange_id) is None


@pytest.mark.parametrize("ending", ["complete", "delete"])
async def test_nothing_begins_in_a_session_between_its_stop_and_its_end(
    sessions: Sessions, hold: Hold, ending: str
) -> None:
    log = await sessions.begin("hello", agent_id="held")
    await holds(lambda: hold.held == 1)
    written = sessions.store.hold("append")
    end: Callable[..., Awaitable[Any]] = getattr(sessions.service, ending)
    ending_it = asyncio.create_task(end(USER, log.session_id))
    async with asyncio.timeout(PATIENCE_S):
        while (await sessions.session(log.session_id)).state is SessionState.ACTIVE:
            await asyncio.sleep(0.01)
    assert log.final is None and not ending_it.done()
    with pytest.raises(SessionCompleted):
        await sessions.begin("and on", session_id=log.session_id, agent_id="held")
    written.set()
    await ending_it
    assert (await events_of(log))[-1]["status"] == "stopped"


async def test_a_decision_that_comes_before_the_pause_is_heard_of_counts(sessions: Sessions, hold: Hold) -> None:
    """The store has the pause and shows it; only its answer has not come yet."""
    hold.released.set()
    paused = sessions.store.hold_answer("set_waiting")
    log = await sessions.begin("hello", agent_id="approved")
    await paused.reached.wait()
    decision = asyncio.create_task(decide(sessions, log))
    await asyncio.wait({decision}, timeout=0.5)
    paused.released.set()
    assert await decision is log
    await check_one_end(sessions, log, "ok")
    await asyncio.sleep(0.1)
    assert not log.is_waiting and (await events_of(log))[-1]["type"] == "final"


async def test_a_stop_and_a_decision_before_the_pause_is_heard_of_end_it_once(sessions: Sessions, hold: Hold) -> None:
    paused = sessions.store.hold_answer("set_waiting")
    log = await sessions.begin("hello", agent_id="approved")
    await paused.reached.wait()
    await sessions.orchestrator.stop(USER, log.session_id, None)
    decision = asyncio.create_task(decide(sessions, log))
    await asyncio.wait({decision}, timeout=0.2)
    paused.released.set()
    with pytest.raises(ApprovalNotFound):
        await decision
    await check_one_end(sessions, log, "stopped")
    assert hold.gone == hold.held == 0, "what nobody may do any more is not begun"


@pytest.mark.redis
@pytest.mark.parametrize("is_stopped", [True, False])
async def test_a_decision_elsewhere_before_the_pause_is_heard_of(
    tmp_path: Path, hold: Hold, redis_url: str, is_stopped: bool
) -> None:
    """It goes on there, and a stop that came here stops it there."""
    agents = {"approved": approved_graph(hold)}
    async with AsyncExitStack() as opened:
        here, there = [await connected(opened, tmp_path, agents, redis_url, name) for name in ("here", "there")]
        paused = here.store.hold_answer("set_waiting")
        log = await here.begin("hello")
        final = asyncio.create_task(until(log, "final"))
        await paused.reached.wait()
        if is_stopped:
            await here.orchestrator.stop(USER, log.session_id, None)
        log_there = await decide(there, log)
        await holds(lambda: hold.held == 1)
        if is_stopped:
            paused.released.set()
        else:
            hold.released.set()
        status = "stopped" if is_stopped else "ok"
        assert (await final)["status"] == status
        paused.released.set()
        await holds(lambda: here.relay.running_count == 0)
        assert (await events_of(log))[-1]["type"] == "final", "nothing comes after it"
        await check_one_end(there, log_there, status)
