"""Tools in the background outlive the instance that runs them: what it leaves is closed, and reported by another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool, tool
from services.mongodb import fresh_database
from support.held_agents import Hold
from support.recorded_agents import entry_of, eventually
from support.sessions import PATIENCE_S, Sessions, open_sessions
from support.turn_model import Turn, TurnModel, call

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.background import background
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.protocol.trail import PromptRecord, ToolCallRecord, TrailQuery
from tests.tools.test_background import Told

LOST = "The server went away before the tool gave a result."


class Start(Protocol):
    """Starts an instance on the store of the test."""

    def __call__(self, agent: CatalogAgent) -> AbstractAsyncContextManager[Sessions]: ...


@pytest.fixture
async def start(mongodb: str | None, tmp_path: Path) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(fresh_database(mongodb)) if mongodb is not None else None

        @asynccontextmanager
        async def started(agent: CatalogAgent) -> AsyncIterator[Sessions]:
            database = await MongoStore.open(url, timeout_s=20) if url is not None else None
            async with open_sessions(tmp_path, {"agent": agent}, database=database, alone=False) as sessions:
                yield sessions

        yield started


def agent(hold: Hold, *turns: Turn) -> CatalogAgent:
    """Its tool `work` is held in the background."""

    def build(model: BaseChatModel, tools: list[BaseTool]) -> CompiledGraph:
        @background
        @tool
        async def work() -> str:
            """Work."""
            await hold.wait()
            return "worked"

        return create_agent(TurnModel(turns=list(turns)), tools=[work])

    return entry_of(build, "agent")


def working(hold: Hold) -> CatalogAgent:
    return agent(hold, Turn(calls=[call("work", "c1")]), Turn("started"), *[Turn("done")] * 5)


def answering() -> CatalogAgent:
    return agent(Hold(), *[Turn("done")] * 5)


async def ended(sessions: Sessions, session_id: str | None = None) -> ExchangeLog:
    log = await sessions.begin("go", session_id=session_id)
    await log.wait_ended()
    assert log.final is not None and log.final.status == "ok", log.final
    return log


async def record_of(sessions: Sessions, log: ExchangeLog) -> ToolCallRecord:
    [found] = (await sessions.store.real.trail(TrailQuery(ToolCallRecord, {"exchange_id": log.exchange_id}))).records
    return found


async def reported(sessions: Sessions, log: ExchangeLog) -> list[str]:
    """What the exchange's prompt says of the background."""
    page = await sessions.store.real.trail(TrailQuery(PromptRecord, {"exchange_id": log.exchange_id}))
    return [section.text for one in page.records for section in one.sections if "background" in section.source]


async def test_the_end_is_reported_by_another_instance_and_once(start: Start, hold: Hold) -> None:
    async with start(working(hold)) as first:
        log = await ended(first)
        hold.released.set()
        async with asyncio.timeout(PATIENCE_S):
            while (await record_of(first, log)).state == "pending":
                await asyncio.sleep(0.01)
    async with start(answering()) as second:
        next_one = await ended(second, log.session_id)
        [text] = await reported(second, next_one)
        assert f"as {log.exchange_id}.c1, has ended (success)" in text
        assert (await record_of(second, log)).reported_in == next_one.exchange_id
        assert await reported(second, await ended(second, log.session_id)) == []


async def test_what_a_dead_instance_leaves_is_closed_and_reported(start: Start, hold: Hold) -> None:
    async with start(working(hold)) as dead:
        log = await ended(dead)
        await eventually(lambda: hold.held)
        async with start(answering()) as other:
            told = Told()
            other.relay.session_subscriptions.add(log.session_id or "", told, exchanges_too=False)
            assert await other.background.close_left(10) == 1
            lost = await record_of(other, log)
            assert (lost.state, lost.error, lost.runs_on) == ("error", LOST, None)
            assert [one.id for one in told.sessions] == [log.session_id]
            assert await other.background.close_left(10) == 0
            [text] = await reported(other, await ended(other, log.session_id))
            assert "has ended (error)" in text
            # It comes back, and is too late.
            hold.released.set()
            await eventually(lambda: not dead.background._calls)
            assert (await record_of(other, log)).error == LOST


async def test_what_a_living_instance_runs_is_left_alone(start: Start, hold: Hold, mongodb: str | None) -> None:
    async with start(working(hold)) as here:
        log = await ended(here)
        assert await here.background.close_left(10) == 0
        if mongodb is not None:
            # A SQLite file serves one instance.
            owner = (await record_of(here, log)).runs_on
            assert owner is not None
            async with here.store.real.heartbeat(owner, 1), start(answering()) as other:
                assert await other.background.close_left(10) == 0
        hold.released.set()
        await eventually(lambda: not here.background._calls)
        assert (await record_of(here, log)).result == "worked"


async def test_what_this_instance_could_not_store_is_closed(start: Start, hold: Hold) -> None:
    async with start(working(hold)) as sessions:
        log = await ended(sessions)
        await eventually(lambda: hold.held)
        # As after an outage that was too long.
        with sessions.store.away("add_trail"):
            hold.released.set()
            await eventually(lambda: "add_trail" in sessions.store.refused)
            await sessions.background.aclose()
            await eventually(lambda: not sessions.background._calls)
        assert (await record_of(sessions, log)).state == "pending"
        assert await sessions.background.close_left(10) == 1
        assert (await record_of(sessions, log)).error == LOST


async def test_nothing_is_read_in_a_session_without_background(start: Start) -> None:
    async with start(answering()) as sessions:
        log = await ended(sessions)
        assert (await sessions.session(log.session_id)).has_background is False
        with sessions.store.away("trail"):
            await ended(sessions, log.session_id)
        assert "trail" not in sessions.store.refused
