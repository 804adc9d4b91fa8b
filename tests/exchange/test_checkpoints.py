"""What the store keeps of a graph, so that it can go on: on SQLite and on MongoDB."""

import logging
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import START, StateGraph, add_messages
from langgraph.types import interrupt
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.sessions import USER, Sessions, events_of, open_sessions, until
from typing_extensions import TypedDict

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.agents.state.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.records import CheckpointKind


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


async def test_a_paused_graph_keeps_a_checkpoint_without_secrets(sessions: Sessions) -> None:
    log = await sessions.begin("hello")
    await until(log, "awaiting_human")
    stored = await sessions.store.real.checkpoint(log.exchange_id)
    assert stored is not None and stored.state is not None and b"token" not in stored.state
    assert ExchangeCheckpoints.unpack(stored.state).run_id == log.exchange_id
    record = stored.record
    assert (record.version, record.kind, record.exchange_id) == (1, CheckpointKind.APPROVAL_PENDING, log.exchange_id)
    assert record.request_id == (await sessions.record(log.exchange_id)).request_id


async def test_an_ended_exchange_keeps_only_its_record(sessions: Sessions) -> None:
    log = await sessions.begin("hello")
    await until(log, "awaiting_human")
    await sessions.orchestrator.stop(USER, log.session_id, None)
    await sessions.idle(log.session_id)
    assert await sessions.store.real.checkpoint(log.exchange_id) is None
    record = await sessions.record(log.exchange_id)
    assert record.checkpoint is not None and record.checkpoint.kind is CheckpointKind.FINAL_RESULT


async def test_a_graph_that_can_not_be_kept_can_not_wait(sessions: Sessions, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    log = await sessions.begin("hello", agent_id="locked")
    final = (await events_of(log))[-1]
    assert (final["status"], final["error"]["code"]) == ("error", "internal")
    assert "can't wait for a person" in final["error"]["content"]
