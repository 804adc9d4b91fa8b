"""While the store's answer to a claim is on its way, the exchange is nobody's to end: it is about to run."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from langgraph.types import interrupt
from support.recorded_agents import one_node
from support.sessions import USER, Sessions, events_of, open_sessions, until

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.errors import SessionBusy
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.relay.log.exchange_log import ExchangeLog


def asking_graph() -> CompiledGraph:
    return one_node(lambda _: {"messages": [AIMessage(f"I may: {interrupt('May I?')}.")]})


def greeting_graph() -> CompiledGraph:
    return one_node(lambda _: {"messages": [AIMessage("hello")]})


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[Sessions]:
    agents = {"asking": asking_graph(), "greeting": greeting_graph()}
    async with open_sessions(tmp_path, agents) as sessions:
        yield sessions


async def check_busy(sessions: Sessions, session_id: str | None) -> None:
    """Neither an ask nor maintenance ends what is about to run."""
    with pytest.raises(SessionBusy):
        await sessions.begin("hello", session_id=session_id, agent_id="greeting")
    await sessions.maintenance.recover_all()


async def paused(sessions: Sessions) -> ExchangeLog:
    log = await sessions.begin("hello", agent_id="asking")
    await until(log, "awaiting_human")
    return log


async def test_an_ask(sessions: Sessions) -> None:
    session_id = (await sessions.ask("hello", agent_id="greeting"))[0]["session_id"]
    claim = sessions.store.hold_answer("begin_exchange")
    begun = asyncio.create_task(sessions.begin("and?", session_id=session_id, agent_id="greeting"))
    await claim.reached.wait()
    await check_busy(sessions, session_id)
    claim.released.set()
    assert (await events_of(await begun))[-1]["status"] == "ok"


async def test_a_decision(sessions: Sessions) -> None:
    log = await paused(sessions)
    [request] = (await until(log, "awaiting_human"))["payload"]["requests"]
    claim = sessions.store.hold_answer("decide")
    payload = HumanDecisions(answers={request["interrupt_id"]: "yes"})
    decided = asyncio.create_task(
        sessions.orchestrator.human_resume(USER, log.session_id, log.exchange_id, payload, None)
    )
    await claim.reached.wait()
    await check_busy(sessions, log.session_id)
    claim.released.set()
    assert (await events_of(await decided))[-1]["status"] == "ok"


async def test_a_stop_of_what_waits(sessions: Sessions) -> None:
    log = await paused(sessions)
    claim = sessions.store.hold_answer("decide")
    stopped = asyncio.create_task(sessions.orchestrator.stop(USER, log.session_id, None))
    await claim.reached.wait()
    await check_busy(sessions, log.session_id)
    claim.released.set()
    await stopped
    assert (await events_of(log))[-1]["status"] == "stopped"


async def test_what_is_resumed(sessions: Sessions) -> None:
    log = await paused(sessions)
    record = await sessions.record(log.exchange_id)
    await sessions.store.real.decide(record, (), "a dead instance")
    await sessions.maintenance.recover_all()
    assert (await events_of(log))[-1]["status"] == "interrupted"
    claim = sessions.store.hold_answer("begin_exchange")
    resumed = asyncio.create_task(sessions.orchestrator.resume(USER, log.exchange_id, None, "request"))
    await claim.reached.wait()
    await check_busy(sessions, log.session_id)
    claim.released.set()
    await until(await resumed, "awaiting_human")
