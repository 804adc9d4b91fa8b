"""Exchanges that wait for a person: decided once, by whoever's instance, however long it takes; or they expire."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph, add_messages
from langgraph.types import interrupt
from support.chat_client import check_exchange, final_text
from support.recorded_agents import eventually
from support.sessions import USER, Sessions, events_of, open_sessions, until
from typing_extensions import TypedDict

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.auth.user import User
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.errors import ApprovalNotFound, BadFrame, ExchangeNotFound, SessionBusy
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.stores.protocol.exchange_pages import ACTIVITIES_PER_EXCHANGE
from agentic_backend.stores.protocol.trail import ActivityRecord, TrailQuery
from agentic_backend.stores.records import CheckpointKind, ExchangeRecord


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def asking_graph(*questions: str) -> CompiledGraph:
    """Says that it asks, asks all questions at once, and answers with the answers."""

    async def say(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage("Let me ask.")]}

    async def answer(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(" and ".join(message.text for message in state["messages"][2:]))]}

    graph = StateGraph(State)
    graph.add_node("say", say)
    graph.add_node("answer", answer)
    graph.add_edge(START, "say")
    for number, question in enumerate(questions):

        async def ask(state: State, question: str = question) -> dict[str, Any]:
            return {"messages": [AIMessage(f"{interrupt(question)}")]}

        graph.add_node(f"ask {number}", ask)
        graph.add_edge("say", f"ask {number}")
    graph.add_edge([f"ask {number}" for number in range(len(questions))], "answer")
    return graph.compile()


def inquiring_graph() -> CompiledGraph:
    """Asks twice within one node."""

    async def ask(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{interrupt('Which one?')} because {interrupt('Why?')}")]}

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    return graph.compile()


def reporting_graph() -> CompiledGraph:
    """Tells many steps that stay, asks, and tells as many again."""

    async def report(state: State) -> dict[str, Any]:
        for number in range(60):
            get_stream_writer()({"step": f"Step {number}", "kept": True})
        return {}

    async def ask(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{interrupt('Go on?')}")]}

    graph = StateGraph(State)
    graph.add_node("before", report)
    graph.add_node("ask", ask)
    graph.add_node("after", report)
    graph.add_edge(START, "before")
    graph.add_edge("before", "ask")
    graph.add_edge("ask", "after")
    return graph.compile()


AGENTS = {
    "asking": asking_graph("Left or right?"),
    "asking-twice": asking_graph("Left or right?", "Why?"),
    "inquiring": inquiring_graph(),
    "reporting": reporting_graph(),
}


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[Sessions]:
    async with open_sessions(tmp_path, AGENTS) as sessions:
        yield sessions


async def waiting(sessions: Sessions, agent_id: str = "asking") -> tuple[ExchangeLog, list[str]]:
    """The log of an exchange that waits, and the ids of what it waits for."""
    log = await sessions.begin("hello", agent_id=agent_id)
    event = await until(log, "awaiting_human")
    return log, [request["interrupt_id"] for request in event["payload"]["requests"]]


async def decide(sessions: Sessions, log: ExchangeLog, answers: dict[str, Any], user: User = USER) -> ExchangeLog:
    payload = HumanDecisions(answers=answers)
    return await sessions.orchestrator.human_resume(user, log.session_id, log.exchange_id, payload, None)


async def record_of(sessions: Sessions, log: ExchangeLog) -> ExchangeRecord:
    record = await sessions.store.real.get_exchange(log.exchange_id)
    assert record is not None
    return record


async def test_activities_are_bounded_over_all_runs_of_an_exchange(sessions: Sessions) -> None:
    log, [question] = await waiting(sessions, "reporting")
    await decide(sessions, log, {question: "yes"})
    await events_of(log)
    kept = await sessions.store.real.trail(TrailQuery(ActivityRecord, limit=1_000))
    assert len(kept.records) == ACTIVITIES_PER_EXCHANGE


async def test_an_answer_lets_the_exchange_go_on(sessions: Sessions) -> None:
    log, [question] = await waiting(sessions)
    assert await decide(sessions, log, {question: "left"}) is log
    events = await events_of(log)
    check_exchange(events)
    assert events[-1]["status"] == "ok"
    assert final_text(events) == "left"
    assert await sessions.stored(log.session_id) == events[-1]["messages"]
    [decision] = (await record_of(sessions, log)).decisions
    assert (decision.interrupt_id, decision.action, decision.by, decision.answer) == (
        question,
        "answer",
        "alice",
        "left",
    )


async def test_nobody_runs_what_waits_and_all_of_it_is_stored(sessions: Sessions) -> None:
    log, _ = await waiting(sessions)
    assert sessions.relay.running(log.exchange_id) is None
    record = await record_of(sessions, log)
    assert record.status is ExchangeStatus.AWAITING_HUMAN and record.pending is not None
    assert record.checkpoint is not None and record.checkpoint.kind is CheckpointKind.APPROVAL_PENDING
    texts = [message["parts"][0]["text"] for message in await sessions.stored(log.session_id)]
    assert texts == ["hello", "Let me ask."]
    with pytest.raises(SessionBusy):
        await sessions.begin("are you there?", session_id=log.session_id)


async def test_it_goes_on_in_another_process(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, AGENTS) as sessions:
        log, [question] = await waiting(sessions)
        seen = log.last_seq
    async with open_sessions(tmp_path, AGENTS) as sessions:
        session, found = await sessions.orchestrator.running_in(USER, log.session_id or "")
        assert found is not None and session.active_exchange_id == log.exchange_id
        assert found.read(seen) == [], "the places of a waiting exchange are the same everywhere"
        assert found.read(seen - 1) == log.read(seen - 1)
        assert [event.type for event in found.read(0)] == ["reset", "awaiting_human"]
        await decide(sessions, found, {question: "right"})
        events = await events_of(found)
        assert [event["type"] for event in events] == ["reset", "final"]
        assert final_text(events) == "right"
        assert events[-1]["seq"] > seen
        assert await sessions.stored(log.session_id) == events[-1]["messages"]
        again = await sessions.begin("hello again", session_id=log.session_id)
        assert (await until(again, "awaiting_human"))["exchange_id"] == again.exchange_id


async def test_a_part_may_be_settled_and_then_the_rest(sessions: Sessions) -> None:
    log, [first, second] = await waiting(sessions, "asking-twice")
    await decide(sessions, log, {second: "because"})
    asked = [event for event in log.read(0) if event.type == "awaiting_human"]
    assert [request.interrupt_id for request in asked[-1].payload.requests] == [first]  # type: ignore[attr-defined]
    await decide(sessions, log, {first: "left"})
    assert final_text(await events_of(log)) == "left and because"
    assert [decision.answer for decision in (await record_of(sessions, log)).decisions] == ["because", "left"]


async def test_each_decision_counts_once(sessions: Sessions) -> None:
    log, [question] = await waiting(sessions)
    answers = [decide(sessions, log, {question: f"answer {number}"}) for number in range(20)]
    outcomes = await asyncio.gather(*answers, return_exceptions=True)
    assert sum(outcome is log for outcome in outcomes) == 1
    assert all(isinstance(outcome, ApprovalNotFound) for outcome in outcomes if outcome is not log)
    [decision] = (await record_of(sessions, log)).decisions
    assert final_text(await events_of(log)) == decision.answer
    with pytest.raises(ApprovalNotFound):
        await decide(sessions, log, {question: "once more"})


async def test_two_may_decide_at_the_same_time_on_different_questions(sessions: Sessions) -> None:
    log, [first, second] = await waiting(sessions, "asking-twice")
    await asyncio.gather(decide(sessions, log, {first: "left"}), decide(sessions, log, {second: "because"}))
    assert final_text(await events_of(log)) == "left and because"


@pytest.mark.parametrize("answers", [{}, {"another": "left"}], ids=["nothing", "nothing that waits"])
async def test_a_decision_that_is_refused_changes_nothing(sessions: Sessions, answers: dict[str, Any]) -> None:
    log, [question] = await waiting(sessions)
    before = await record_of(sessions, log)
    with pytest.raises((BadFrame, ApprovalNotFound)):
        await decide(sessions, log, answers)
    assert await record_of(sessions, log) == before
    await decide(sessions, log, {question: "left"})
    assert final_text(await events_of(log)) == "left"


async def test_one_bad_answer_refuses_the_whole_frame(sessions: Sessions) -> None:
    log, [first, second] = await waiting(sessions, "asking-twice")
    with pytest.raises(ApprovalNotFound):
        await decide(sessions, log, {first: "left", "another": "no"})
    assert (await record_of(sessions, log)).decisions == []
    await decide(sessions, log, {first: "left", second: "because"})
    assert final_text(await events_of(log)) == "left and because"


async def test_only_its_user_may_decide(sessions: Sessions) -> None:
    log, [question] = await waiting(sessions)
    with pytest.raises(ExchangeNotFound):
        await decide(sessions, log, {question: "left"}, User(id="mallory", name="Mallory"))


async def test_a_decision_counts_only_in_the_session_that_it_names(sessions: Sessions) -> None:
    (log, [question]), (other, _) = await waiting(sessions), await waiting(sessions)
    payload = HumanDecisions(answers={question: "left"})
    with pytest.raises(ExchangeNotFound):
        await sessions.orchestrator.human_resume(USER, other.session_id, log.exchange_id, payload, None)
    assert (await record_of(sessions, log)).status is ExchangeStatus.AWAITING_HUMAN


async def test_a_stop_ends_what_waits(sessions: Sessions) -> None:
    log, [question] = await waiting(sessions)
    assert await sessions.orchestrator.stop(USER, log.session_id, None) is log
    events = await events_of(log)
    assert (events[-1]["type"], events[-1]["status"]) == ("final", "stopped")
    assert await sessions.stored(log.session_id) == events[-1]["messages"]
    with pytest.raises(ApprovalNotFound):
        await decide(sessions, log, {question: "left"})
    assert (await sessions.session(log.session_id)).active_exchange_id is None
    assert await sessions.store.real.checkpoint(log.exchange_id) is None


async def test_a_session_is_deleted_while_it_waits(sessions: Sessions) -> None:
    log, _ = await waiting(sessions)
    await sessions.service.delete(USER, log.session_id or "")
    assert await sessions.store.real.get_exchange(log.exchange_id) is None
    assert (await events_of(log))[-1]["status"] == "stopped"


async def test_a_stop_in_the_moment_of_the_pause_ends_it(sessions: Sessions) -> None:
    held = sessions.store.hold("set_waiting")
    log = await sessions.begin("hello")
    async with asyncio.timeout(10):
        while "Let me ask." not in [text for message in log.messages for text in _texts(message.parts)]:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        await sessions.orchestrator.stop(USER, log.session_id, None)
        held.set()
    assert (await events_of(log))[-1]["status"] == "stopped"
    await sessions.idle(log.session_id)


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_a_pause_that_gets_lost_is_stored_once(sessions: Sessions, lost: str) -> None:
    for _ in range(2):
        _lose(sessions, lost, "set_waiting")
    log, [question] = await waiting(sessions)
    assert [event.type for event in log.read(0)].count("awaiting_human") == 1
    await decide(sessions, log, {question: "left"})
    events = await events_of(log)
    assert final_text(events) == "left" and await sessions.stored(log.session_id) == events[-1]["messages"]


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_a_decision_that_gets_lost_counts_once_and_is_acted_upon(sessions: Sessions, lost: str) -> None:
    log, [first, second] = await waiting(sessions, "asking-twice")
    for answers in ({second: "because"}, {first: "left"}):
        for _ in range(2):
            _lose(sessions, lost, "decide")
        await decide(sessions, log, answers)
    assert final_text(await events_of(log)) == "left and because"
    assert [decision.answer for decision in (await record_of(sessions, log)).decisions] == ["because", "left"]


@pytest.mark.parametrize("lost", ["request", "answer"])
@pytest.mark.parametrize("operation", ["decide", "append"])
async def test_a_stop_of_what_waits_holds_though_the_store_is_away(
    sessions: Sessions, lost: str, operation: str
) -> None:
    log, _ = await waiting(sessions)
    for _ in range(2):
        _lose(sessions, lost, operation)
    assert await sessions.orchestrator.stop(USER, log.session_id, None) is log
    events = await events_of(log)
    assert (events[-1]["status"], events[-1]["messages"]) == ("stopped", await sessions.stored(log.session_id))
    assert (await record_of(sessions, log)).status is ExchangeStatus.STOPPED


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_a_stop_while_a_pause_cannot_be_stored_ends_it(sessions: Sessions, lost: str) -> None:
    held = sessions.store.hold("set_waiting")
    _lose(sessions, lost, "set_waiting")
    _lose(sessions, lost, "decide")
    log = await sessions.begin("hello")
    await until(log, "stream")
    await sessions.orchestrator.stop(USER, log.session_id, None)
    held.set()
    events = await events_of(log)
    assert (events[-1]["status"], events[-1]["messages"]) == ("stopped", await sessions.stored(log.session_id))


async def test_what_waits_when_its_process_goes_waits_on(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, AGENTS, grace_s=0.05) as sessions:
        held = sessions.store.hold("set_waiting")
        sessions.store.lose_next_answer("set_waiting")
        log = await sessions.begin("hello")
        # Its graph has paused by then, and can't be drained before.
        await eventually(lambda: "set_waiting" in sessions.store.waiting)
        closing = asyncio.create_task(sessions.relay.aclose())
        await asyncio.sleep(0.5)
        held.set()
        await closing
        assert log.final is None
        assert (await record_of(sessions, log)).status is ExchangeStatus.AWAITING_HUMAN


async def test_what_nobody_answers_in_time_is_ended(tmp_path: Path) -> None:
    limits = LimitsSettings(human_timeout_s=0.3)
    async with open_sessions(tmp_path, AGENTS, limits=limits, lease_s=0.9) as sessions:
        log, [question] = await waiting(sessions)
        events = await events_of(log)
        assert events[-1]["status"] == "stopped"
        with pytest.raises(ApprovalNotFound):
            await decide(sessions, log, {question: "left"})


async def test_a_node_may_ask_again_and_again(sessions: Sessions) -> None:
    log, [question] = await waiting(sessions, "inquiring")
    await decide(sessions, log, {question: "left"})
    async with asyncio.timeout(10):
        while not log.is_waiting or (await record_of(sessions, log)).status is not ExchangeStatus.AWAITING_HUMAN:
            await asyncio.sleep(0.02)
    record = await record_of(sessions, log)
    assert record.pending is not None
    [again] = record.pending.requests
    assert again.question == "Why?" and again.interrupt_id != question
    with pytest.raises(ApprovalNotFound):
        await decide(sessions, log, {question: "right"})
    await decide(sessions, log, {again.interrupt_id: "it is shorter"})
    events = await events_of(log)
    check_exchange(events)
    assert final_text(events) == "left because it is shorter"


async def test_without_a_time_limit_it_waits_for_good(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, AGENTS, limits=LimitsSettings(human_timeout_s=None), lease_s=0.3) as sessions:
        log, [question] = await waiting(sessions)
        await asyncio.sleep(1)
        record = await record_of(sessions, log)
        assert record.deadline is None and record.pending is not None and record.pending.expires_at is None
        await decide(sessions, log, {question: "left"})
        assert final_text(await events_of(log)) == "left"


def _texts(parts: Sequence[Any]) -> list[str]:
    return [part.text for part in parts if part.type == "text"]


def _lose(sessions: Sessions, lost: str, operation: str) -> None:
    lose = sessions.store.lose_next_request if lost == "request" else sessions.store.lose_next_answer
    lose(operation)
