"""Before an assignment opens, and after it has closed, nothing is asked in it, by whatever way."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.held_agents import Hold
from support.recorded_agents import echoing_graph, eventually
from support.sessions import USER, Sessions, events_of, open_sessions, until
from support.step_agents import Steps

from agentic_backend.errors import AgenticError, AssignmentClosed, AssignmentNotOpen, StoreUnavailable
from agentic_backend.policy.scopes.policies_file import KnownNames, Policies, read_policies
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.protocol.messages import ExchangeStatus, SessionState

ESSAY = {"assignment": "essay"}
OPEN = "available_at: 2000-01-01T08:00:00Z, closes_at: 2999-01-01T08:00:00+01:00"
NOT_OPEN = "available_at: 2999-01-01T08:00:00Z"
CLOSED = "closes_at: 2000-01-01T08:00:00Z"


def hours(directory: Path, text: str) -> Policies:
    file = directory / "policies.yaml"
    file.write_text(f"assignments:\n  essay: {{{text}}}\n")
    return read_policies(file, KnownNames((), (), ()))


Way = Callable[[Sessions, str], Awaitable[object]]

WAYS: dict[str, Way] = {
    "a new session": lambda sessions, _: sessions.service.open(USER, None, None, None, ESSAY),
    "an ask that opens one": lambda sessions, _: sessions.begin("hello", scope=ESSAY),
    "an ask": lambda sessions, session_id: sessions.begin("hello", session_id=session_id),
    "a query": lambda sessions, _: sessions.begin("hello", mode="query", scope=ESSAY),
    "a branch": lambda sessions, session_id: sessions.branches.fork(USER, session_id, 0),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
@pytest.mark.parametrize(("text", "error"), [(NOT_OPEN, AssignmentNotOpen), (CLOSED, AssignmentClosed)])
async def test_asks_are_refused(tmp_path: Path, way: Way, text: str, error: type[AgenticError]) -> None:
    agents = {"echo": echoing_graph()}
    async with open_sessions(tmp_path, agents, policies=hours(tmp_path, OPEN)) as sessions:
        session_id = (await sessions.ask("hello", scope=ESSAY))[-1]["session_id"]
        await way(sessions, session_id)
        await sessions.idle(session_id)
    async with open_sessions(tmp_path, agents, policies=hours(tmp_path, text)) as sessions:
        with pytest.raises(error, match="2999-01-01 08:00" if error is AssignmentNotOpen else "2000-01-01 08:00") as no:
            await way(sessions, session_id)
        assert (no.value.retry_after_s is not None) == (error is AssignmentNotOpen)
        _, found = await sessions.service.settings_of(USER, session_id)
        assert found.scope == ESSAY, "its owner still reads it"


async def test_what_was_asked_before_is_still_answered(tmp_path: Path) -> None:
    agents = {"echo": echoing_graph()}
    async with open_sessions(tmp_path, agents, policies=hours(tmp_path, OPEN)) as sessions:
        first = (await sessions.ask("hello", scope=ESSAY, client_exchange_id="x"))[-1]
    async with open_sessions(tmp_path, agents, policies=hours(tmp_path, CLOSED)) as sessions:
        again = await sessions.begin("hello", session_id=first["session_id"], client_exchange_id="x")
        assert again.exchange_id == first["exchange_id"]


@pytest.mark.parametrize("word", ["hello", "quit"])
async def test_what_was_begun_but_never_ran_ends_when_it_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """The store's answer got lost, and the assignment has closed since."""
    closes = "closes_at: 2500-01-01T08:00:00Z"
    async with open_sessions(tmp_path, {"echo": echoing_graph()}, policies=hours(tmp_path, closes)) as sessions:
        session_id = (await sessions.ask("hello", scope=ESSAY))[-1]["session_id"]
        sessions.store.lose_next_answer("begin_exchange")
        with pytest.raises(StoreUnavailable):
            await sessions.begin(word, session_id=session_id, client_exchange_id="x")
        now = sessions.store.real.now
        monkeypatch.setattr(sessions.store.real, "now", lambda: now().replace(year=2501))
        final = (await sessions.ask(word, session_id=session_id, client_exchange_id="x"))[-1]
        assert (final["status"], final["error"]["code"]) == ("error", "assignment_closed")
        state = SessionState.COMPLETED if word == "quit" else SessionState.ACTIVE
        session = await sessions.session(session_id)
        assert (session.active_exchange_id, session.state) == (None, state)


async def test_a_decision_is_refused_and_the_exchange_waits_on(tmp_path: Path) -> None:
    agents: dict[str, Any] = {"agent": Steps().agent(Hold(), asks=True)}
    async with open_sessions(tmp_path, agents, policies=hours(tmp_path, OPEN)) as sessions:
        log = await sessions.begin("hello", scope=ESSAY)
        [request] = (await until(log, "awaiting_human"))["payload"]["requests"]
    answers = HumanDecisions(answers={request["interrupt_id"]: "left"})
    async with open_sessions(tmp_path, agents, policies=hours(tmp_path, CLOSED)) as sessions:
        with pytest.raises(AssignmentClosed):
            await sessions.orchestrator.human_resume(USER, log.session_id, log.exchange_id, answers, None)
        assert (await sessions.record(log.exchange_id)).status is ExchangeStatus.AWAITING_HUMAN
        await sessions.orchestrator.stop(USER, log.session_id, None)
        assert (await sessions.record(log.exchange_id)).status is ExchangeStatus.STOPPED


async def test_quit_still_ends_a_session(tmp_path: Path) -> None:
    agents = {"echo": echoing_graph()}
    async with open_sessions(tmp_path, agents, policies=hours(tmp_path, OPEN)) as sessions:
        session_id = (await sessions.ask("hello", scope=ESSAY))[-1]["session_id"]
    async with open_sessions(tmp_path, agents, policies=hours(tmp_path, CLOSED)) as sessions:
        final = (await sessions.ask("quit", session_id=session_id))[-1]
        assert (final["status"], final["session"]["state"]) == ("ok", "completed")


async def test_an_interrupted_exchange_is_not_resumed(tmp_path: Path) -> None:
    hold = Hold()
    agents: dict[str, Any] = {"agent": Steps().agent(hold)}
    async with open_sessions(tmp_path, agents, policies=hours(tmp_path, OPEN)) as sessions:
        log = await sessions.begin("hello", scope=ESSAY)
        await eventually(lambda: hold.held)
    hold.released.set()
    async with open_sessions(tmp_path, agents, policies=hours(tmp_path, CLOSED)) as sessions:
        with pytest.raises(AssignmentClosed):
            await sessions.orchestrator.resume(USER, log.exchange_id, None, "again")
    async with open_sessions(tmp_path, agents, policies=hours(tmp_path, OPEN)) as sessions:
        resumed = await sessions.orchestrator.resume(USER, log.exchange_id, None, "again")
        assert (await events_of(resumed))[-1]["status"] == "ok"
