"""A graph that has paused can go on from what its store keeps, on SQLite and on MongoDB."""

import copy
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import START, StateGraph, add_messages
from langgraph.types import Command, interrupt
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.sessions import Sessions, open_sessions, until
from typing_extensions import TypedDict

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.agents.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.stores.mongo import MongoStore


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    held: Any


def graph_holding(held: object) -> CompiledGraph:
    """Asks a person which one, and answers with that."""

    async def answer(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{interrupt('Which one?')}, as you like.")]}

    async def hold(state: State) -> dict[str, Any]:
        return {"held": held}

    graph = StateGraph(State)
    graph.add_node("hold", hold)
    graph.add_node("answer", answer)
    graph.add_edge(START, "hold")
    graph.add_edge("hold", "answer")
    return graph.compile()


@pytest.fixture(params=["sqlite", *ON_MONGODB])
async def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sessions]:
    agents = {"asking": graph_holding("a value"), "locked": graph_holding(threading.Lock())}
    async with AsyncExitStack() as opened:
        database = None
        if request.param != "sqlite":
            url = await opened.enter_async_context(fresh_database(server_url(request.param, request)))
            database = await MongoStore.open(url, timeout_s=10)
        yield await opened.enter_async_context(open_sessions(tmp_path, agents, database=database))


async def test_a_paused_graph_goes_on_from_its_stored_checkpoint(sessions: Sessions) -> None:
    log = await sessions.begin("hello")
    waiting = await until(log, "awaiting_human")
    stored = await sessions.store.real.checkpoint(log.exchange_id)
    assert stored is not None and b"token" not in stored
    graph = copy.copy(graph_holding("another"))
    graph.checkpointer = ExchangeCheckpoints.unpack(stored)
    [request] = waiting["payload"]["requests"]
    config: Any = {"configurable": {"thread_id": log.exchange_id}}
    ended = await graph.ainvoke(Command(resume={request["interrupt_id"]: "The left one"}), config, durability="exit")
    assert [message.text for message in ended["messages"]] == ["hello", "The left one, as you like."]
    assert ended["held"] == "a value"


async def test_an_ended_exchange_keeps_none(sessions: Sessions) -> None:
    log = await sessions.begin("hello")
    await until(log, "awaiting_human")
    found = sessions.relay.find(log.exchange_id)
    assert found is not None
    found.stop()
    await sessions.idle(log.session_id)
    assert await sessions.store.real.checkpoint(log.exchange_id) is None


async def test_a_graph_that_can_not_be_kept_waits_all_the_same(
    sessions: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    log = await sessions.begin("hello", agent_id="locked")
    await until(log, "awaiting_human")
    assert await sessions.store.real.checkpoint(log.exchange_id) is None
    assert "a paused graph can't be kept" in [record.getMessage() for record in caplog.records]
