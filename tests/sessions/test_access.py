"""Who may go on with an exchange: its user, while they may use its agent; and which instance may end what runs."""

import asyncio
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from support.held_agents import Hold, held_graph
from support.recorded_agents import entry_of
from support.sessions import USER, events_of, open_sessions, until

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.agents.catalog.catalog import AgentAccess
from agentic_backend.auth.user import User
from agentic_backend.errors import Forbidden, SessionBusy
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.protocol.messages import ExchangeStatus
from tests.stores.samples import a_checkpoint, an_end

TRUSTED = User(id=USER.id, name=USER.name, roles=frozenset({"trusted"}))


def asking_graph() -> CompiledGraph:
    async def ask(state: MessagesState) -> dict[str, list[AIMessage]]:
        return {"messages": [AIMessage(f"{interrupt('May I?')}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    return graph.compile()


async def test_who_may_use_an_agent_no_more_lets_nothing_of_it_go_on(tmp_path: Path) -> None:
    entry = entry_of(asking_graph(), "asking", access=AgentAccess(roles=("trusted",)))
    async with open_sessions(tmp_path, {"asking": entry}) as sessions:
        log = await sessions.begin("hello", user=TRUSTED)
        event = await until(log, "awaiting_human")
        payload = HumanDecisions(answers={event["payload"]["requests"][0]["interrupt_id"]: "yes"})
        with pytest.raises(Forbidden):
            await sessions.orchestrator.human_resume(USER, log.session_id, log.exchange_id, payload, None)
        record = await sessions.store.real.get_exchange(log.exchange_id)
        assert record is not None and record.status is ExchangeStatus.AWAITING_HUMAN and not record.decisions

        fence = await sessions.store.real.fence(log.session_id or "")
        assert fence is not None
        await sessions.store.real.append(fence, [], an_end(ExchangeStatus.INTERRUPTED), a_checkpoint())
        with pytest.raises(Forbidden):
            await sessions.orchestrator.resume(USER, log.exchange_id, None, "request")
        assert (await sessions.session(log.session_id)).active_exchange_id is None


async def test_an_ask_at_another_instance_ends_nothing_that_runs_here(tmp_path: Path) -> None:
    """It finds the session busy, or was sent before; only what its own instance has left is ended then."""
    hold = Hold()
    agents = {"held": held_graph(hold)}
    async with open_sessions(tmp_path, agents, alone=False) as here:
        log = await here.begin("hello", client_exchange_id="once")
        async with asyncio.timeout(10):
            while not hold.held:
                await asyncio.sleep(0.01)
        async with open_sessions(tmp_path, agents, alone=False) as there:
            with pytest.raises(SessionBusy):
                await there.begin("hello too", session_id=log.session_id)
            again = await there.begin("hello", client_exchange_id="once")
            assert again.exchange_id == log.exchange_id
            record = await there.store.real.get_exchange(log.exchange_id)
            assert record is not None and record.status is ExchangeStatus.RUNNING
        hold.released.set()
        assert (await events_of(log))[-1]["status"] == "ok"
