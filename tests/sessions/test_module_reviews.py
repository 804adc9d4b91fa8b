"""Modules at the edges of exchanges: stops while they look, texts after a block, other instances, ends of sessions."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from support.chat_client import check_exchange
from support.connected_sessions import connected
from support.held_agents import Hold, held_graph
from support.hostile_modules import MADE, entry, specs
from support.recorded_agents import echoing_graph, entry_of, eventually
from support.sessions import USER, Sessions, events_of, open_sessions

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.agents.catalog.catalog import SessionLimits
from agentic_backend.config.topics.sessions import SessionsSettings
from agentic_backend.errors import SessionCompleted
from agentic_backend.policy.hook_context import HookContext, Point
from agentic_backend.stores.protocol.trail import AuditRecord, ModuleErrorRecord, TrailQuery

# Far less than the 60 seconds that the modules may take here.
SOON_S = 10


@pytest.fixture(autouse=True)
def _fresh() -> None:
    MADE.clear()


def saying_graph(*texts: str, hold: Hold) -> CompiledGraph:
    """Says the texts, and works until the test releases it. The last one is not stored yet: it may be the final."""

    def say(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(text) for text in texts]}

    async def work(state: MessagesState) -> dict[str, Any]:
        await hold.wait()
        return {"messages": [AIMessage("done")]}

    graph = StateGraph(MessagesState)
    graph.add_node("say", say)
    graph.add_node("work", work)
    graph.add_edge(START, "say")
    graph.add_edge("say", "work")
    return graph.compile()


def seen(point: Point) -> list[HookContext]:
    return [context for module in MADE for context in module.seen if context.request.hook is point]


async def audits(sessions: Sessions) -> list[AuditRecord]:
    return (await sessions.store.real.trail(TrailQuery(AuditRecord))).records


@pytest.mark.parametrize(("hold_output", "on_failure"), [(False, "continue"), (False, "block"), (True, "continue")])
async def test_a_stop_leaves_modules_little_time(
    tmp_path: Path, hold: Hold, hold_output: bool, on_failure: str
) -> None:
    """Text that was shown stays, unless a module that can't look at it blocks; text that nobody saw is dropped."""
    waits = {"timeout_s": 60, "on_failure": on_failure, "hold_output": hold_output}
    modules = specs(tmp_path, entry(settings={"after": "hang"}, **waits))
    agents = {"echo": saying_graph("my secret", "and more", hold=hold)}
    async with open_sessions(tmp_path, agents, modules=modules, module_point_timeout_s=60) as sessions:
        log = await sessions.begin("hello")
        await eventually(lambda: seen(Point.AFTER_AI))
        await sessions.orchestrator.stop(USER, log.session_id, log.exchange_id)
        async with asyncio.timeout(SOON_S):
            events = await events_of(log)
        check_exchange(events)
        stored = str(await sessions.stored(log.session_id))
        assert events[-1]["status"] == ("blocked" if on_failure == "block" else "stopped")
        assert ("my secret" in stored) == (not hold_output and on_failure == "continue")
        errors = (await sessions.store.real.trail(TrailQuery(ModuleErrorRecord))).records
        reviews = 0 if hold_output else 1 if on_failure == "block" else 2
        assert len(errors) == reviews, "a review that was cut leaves nothing"


async def test_a_stop_while_the_last_text_is_looked_at_ends_the_exchange_soon(tmp_path: Path) -> None:
    modules = specs(tmp_path, entry(settings={"after": "hang"}, timeout_s=60))
    async with open_sessions(
        tmp_path, {"echo": echoing_graph()}, modules=modules, module_point_timeout_s=60
    ) as sessions:
        log = await sessions.begin("hello")
        await eventually(lambda: seen(Point.AFTER_AI))
        await sessions.orchestrator.stop(USER, log.session_id, log.exchange_id)
        async with asyncio.timeout(SOON_S):
            check_exchange(await events_of(log))


async def test_a_shutdown_while_a_module_looks_takes_no_longer_than_its_grace(tmp_path: Path, hold: Hold) -> None:
    modules = specs(tmp_path, entry(settings={"after": "hang"}, timeout_s=60))
    agents = {"echo": saying_graph("my secret", "and more", hold=hold)}
    async with asyncio.timeout(SOON_S):
        async with open_sessions(tmp_path, agents, modules=modules, module_point_timeout_s=60) as sessions:
            log = await sessions.begin("hello")
            await eventually(lambda: seen(Point.AFTER_AI))
        events = await events_of(log)
    assert events[-1]["status"] == "interrupted" and "my secret" in str(events)


async def test_texts_after_a_block_are_audited_too(tmp_path: Path, hold: Hold) -> None:
    modules = specs(tmp_path, entry(settings={"after": "block_word"}))
    agents = {"echo": saying_graph("my secret", "and more", hold=hold)}
    async with open_sessions(tmp_path, agents, modules=modules) as sessions:
        events = await sessions.ask("hello")
        check_exchange(events)
        texts = [message["parts"][0]["text"] for message in await sessions.stored(events[0]["session_id"])]
        assert texts == ["hello", "[blocked]", "That is not said here."]
        found = {audit.rank: (audit.original, audit.module) for audit in await audits(sessions)}
        assert found == {1: ("my secret", "acting"), 2: ("and more", "acting")}


@pytest.mark.redis
async def test_held_text_reaches_no_other_instance(tmp_path: Path, redis_url: str, hold: Hold) -> None:
    agents = {"echo": entry_of(held_graph(hold), "echo", hold_output=True)}
    async with AsyncExitStack() as opened:
        here, there = [await connected(opened, tmp_path, agents, redis_url, name) for name in ("here", "there")]
        log = await here.begin("hello")
        mirror = await there.orchestrator.view(USER, log.exchange_id)
        reader = mirror.follow(0, lambda: None)
        await eventually(lambda: hold.held and mirror.last_seq > 0)
        # What the model has said would have come by now.
        await asyncio.sleep(0.3)
        assert "two" not in str([event.encode() for event in mirror.read(0)]) and not mirror.partial
        hold.released.set()
        events = await events_of(mirror)
        mirror.unfollow(reader)
        assert "delta" not in {event["type"] for event in events}
        assert "one two three" in str(events[-1]["messages"])


@pytest.mark.parametrize("reason", ["quit", "limit", "inactivity"])
async def test_modules_are_told_of_each_end_of_a_session(tmp_path: Path, reason: str) -> None:
    """And who the user is, unless the server itself ends the session: it knows their id only."""
    echo = entry_of(echoing_graph(), "echo")
    limited = echo.settings.model_copy(update={"session_limits": SessionLimits(max_messages=1)})
    agent = replace(echo, settings=limited) if reason == "limit" else echo
    ending = SessionsSettings(inactive_h=1e-9)
    async with open_sessions(tmp_path, {"echo": agent}, modules=specs(tmp_path, entry()), ending=ending) as sessions:
        session_id = (await sessions.ask("hello"))[0]["session_id"]
        if reason == "quit":
            await sessions.ask("quit", session_id=session_id)
        elif reason == "limit":
            with pytest.raises(SessionCompleted):
                await sessions.ask("more", session_id=session_id)
        else:
            await sessions.housekeeping.do(
                next(chore for chore in sessions.housekeeping.chores if chore.name == "inactivity")
            )
        await eventually(lambda: seen(Point.SESSION_END))
    [context] = seen(Point.SESSION_END)
    assert (context.session.id, context.session.state, context.user.id) == (session_id, "completed", USER.id)
    assert context.user.name == ("" if reason == "inactivity" else USER.name)
