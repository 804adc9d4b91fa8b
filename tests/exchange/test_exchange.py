"""Exchange: it ends once, with one final, whatever its graph and its tools do."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import StructuredTool
from langgraph.graph import MessagesState
from langgraph.types import interrupt
from support.chat_client import check_exchange, final_text, text_of
from support.held_agents import Hold, held_graph, held_tool_graph
from support.recorded_agents import Journal, echoing_graph, eventually, metric, one_node
from support.sessions import USER, Event, Sessions, events_of, open_sessions, until

from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.experts.plain_chat.graph import build
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.streaming.model.stream_turns import StreamTurns

SECRET = "the secret of the graph"


def failed(events: list[Event], code: str) -> list[Event]:
    """The exchange has failed with this code, and told nothing that it should not; its messages."""
    check_exchange(events)
    assert events[-1]["status"] == "error"
    assert events[-1]["error"]["code"] == code
    assert SECRET not in str(events)
    messages: list[Event] = events[-1]["messages"]
    return messages


async def goes_on(sessions: Sessions, session_id: str, agent_id: str = "echo") -> None:
    """The session is idle, and its next exchange is answered."""
    assert (await sessions.session(session_id)).active_exchange_id is None
    events = await sessions.ask("and now?", session_id=session_id, agent_id=agent_id)
    check_exchange(events)
    assert final_text(events) == "echo: and now?"


async def raise_error(state: MessagesState) -> dict[str, Any]:
    raise ValueError(SECRET)


async def raise_group(state: MessagesState) -> dict[str, Any]:
    raise ExceptionGroup(SECRET, [ValueError(SECRET)])


async def cancel_itself(state: MessagesState) -> dict[str, Any]:
    raise asyncio.CancelledError(SECRET)


async def return_nonsense(state: MessagesState) -> dict[str, Any]:
    return 42  # type: ignore[return-value]


@pytest.mark.parametrize("node", [raise_error, raise_group, cancel_itself, return_nonsense])
async def test_a_graph_that_fails_ends_its_exchange_with_an_error(tmp_path: Path, node: Any) -> None:
    async with open_sessions(tmp_path, {"echo": echoing_graph(), "failing": one_node(node)}) as sessions:
        events = await sessions.ask("hello", agent_id="failing")
        messages = failed(events, "internal")
        assert [message["channel"] for message in messages] == ["final", "error"]
        assert await sessions.stored(events[0]["session_id"]) == messages
        await goes_on(sessions, events[0]["session_id"])
        assert metric(sessions.kpi, "chat_running_exchanges") == 0
        assert metric(sessions.kpi, "chat_exchange_total", agent_id="failing", status="error") == 1


async def test_a_graph_that_ends_without_a_word_has_an_empty_final(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, {"silent": one_node(lambda state: {"messages": []})}) as sessions:
        events = await sessions.ask("hello")
        check_exchange(events)
        assert final_text(events) == ""


async def test_a_stop_keeps_what_was_said(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold), "echo": echoing_graph()}) as sessions:
        log = await sessions.begin("hello")
        await eventually(lambda: hold.held)
        assert await sessions.service.cancel(USER, log.session_id or "")
        events = await events_of(log)
        check_exchange(events)
        assert events[-1]["status"] == "stopped"
        [_, partial] = events[-1]["messages"]
        assert (text_of(partial), partial["metadata"]["finish_reason"]) == ("one two ", "cancelled")
        assert hold.held == 0
        assert not await sessions.service.cancel(USER, log.session_id or "")
        await goes_on(sessions, log.session_id or "")


class DeafOnce(OfflineChatModel):
    """Swallows a cancellation that comes with a chunk, as `asyncio.wait_for` of Python 3.11 does, and has no end."""

    hold: Hold
    closed: asyncio.Event

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        with contextlib.suppress(asyncio.CancelledError):
            await self.hold.wait()
        try:
            while True:
                yield ChatGenerationChunk(message=AIMessageChunk("more "))
                await asyncio.sleep(0.01)
        finally:
            self.closed.set()


async def test_a_stop_ends_a_model_that_swallows_its_cancellation(tmp_path: Path) -> None:
    hold, closed = Hold(), asyncio.Event()
    async with open_sessions(tmp_path, {"deaf": build(DeafOnce(hold=hold, closed=closed))}) as sessions:
        log = await sessions.begin("hello")
        await eventually(lambda: hold.held)
        assert await sessions.service.cancel(USER, log.session_id or "")
        assert (await events_of(log))[-1]["status"] == "stopped"
        await eventually(closed.is_set)


async def test_a_tool_that_ignores_its_cancellation_is_left_behind(tmp_path: Path) -> None:
    hold = Hold(ignores_cancel=True)
    agents = {"working": held_tool_graph(hold), "echo": echoing_graph()}
    async with open_sessions(tmp_path, agents) as sessions:
        log = await sessions.begin("call work()")
        await eventually(lambda: hold.held)
        assert await sessions.service.cancel(USER, log.session_id or "")
        events = await events_of(log)
        check_exchange(events)
        assert events[-1]["status"] == "stopped"
        messages = events[-1]["messages"]
        [result] = [part for message in messages for part in message["parts"] if "ok" in part]
        assert not result["ok"] and "worked" not in result["content"]
        assert hold.held == 1
        await goes_on(sessions, log.session_id or "")
        again = await sessions.begin("call work()", session_id=log.session_id)
        await eventually(lambda: hold.held == 2)
        before = log.read(0)
        hold.released.set()
        events = await events_of(again)
        check_exchange(events)
        assert events[-1]["status"] == "ok"
        await eventually(lambda: hold.gone == 2)
        assert log.read(0) == before, "what comes too late is neither shown nor stored"
        stored = (await sessions.stored(log.session_id))[: len(messages)]
        assert stored == messages and "worked" not in str(stored)


async def test_a_tool_in_a_thread_cannot_be_cut_and_holds_nothing_up(tmp_path: Path) -> None:
    at_work, go_on = threading.Event(), threading.Event()

    def work() -> str:
        """Work in a thread."""
        at_work.set()
        go_on.wait(20)
        return "worked"

    graph = create_agent(OfflineChatModel(words_per_second=0), tools=[StructuredTool.from_function(work)])
    async with open_sessions(tmp_path, {"working": graph, "echo": echoing_graph()}) as sessions:
        log = await sessions.begin("call work()")
        await eventually(at_work.is_set)
        assert await sessions.service.cancel(USER, log.session_id or "")
        check_exchange(await events_of(log))
        await goes_on(sessions, log.session_id or "")
        go_on.set()


async def test_the_silence_of_a_model_is_a_model_timeout(tmp_path: Path) -> None:
    # Long enough for a busy machine to come to the second word.
    hold, limits = Hold(), LimitsSettings(model_timeout_s=3)
    async with open_sessions(tmp_path, {"held": held_graph(hold), "echo": echoing_graph()}, limits=limits) as sessions:
        events = await sessions.ask("hello")
        messages = failed(events, "model_timeout")
        assert [text_of(message) for message in messages[:2]] == ["hello", "one two "]
        assert messages[1]["metadata"]["finish_reason"] == "other"
        await goes_on(sessions, events[0]["session_id"])


async def test_a_loop_that_is_late_is_no_silence_of_a_model(tmp_path: Path) -> None:
    hold, limits = Hold(), LimitsSettings(model_timeout_s=2)
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, limits=limits) as sessions:
        log = await sessions.begin("hello")
        await eventually(lambda: hold.held)
        for _ in range(10):
            # Other work has the loop, and may have it for longer than the model's time.
            time.sleep(0.4)
            await asyncio.sleep(0)
        hold.released.set()
        events = await events_of(log)
        check_exchange(events)
        assert events[-1]["status"] == "ok"


async def test_a_stream_that_waits_for_the_streams_of_others_is_not_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_line, go_on = asyncio.Event(), asyncio.Event()

    async def wait(self: StreamTurns) -> None:
        in_line.set()
        await go_on.wait()

    monkeypatch.setattr(StreamTurns, "used_up", lambda self: True)
    monkeypatch.setattr(StreamTurns, "wait", wait)
    limits = LimitsSettings(model_timeout_s=1)
    async with open_sessions(tmp_path, {"plain": build(OfflineChatModel())}, limits=limits) as sessions:
        log = await sessions.begin("hello")
        async with asyncio.timeout(60):
            await in_line.wait()
        await asyncio.sleep(2)
        go_on.set()
        events = await events_of(log)
        check_exchange(events)
        assert events[-1]["status"] == "ok"


async def test_a_tool_has_its_own_time(tmp_path: Path) -> None:
    hold, limits = Hold(), LimitsSettings(model_timeout_s=2.5)
    agents = {"working": held_tool_graph(hold), "echo": echoing_graph()}
    async with open_sessions(tmp_path, agents, limits=limits) as sessions:
        log = await sessions.begin("call work()")
        await eventually(lambda: hold.held)
        await asyncio.sleep(3)
        hold.released.set()
        events = await events_of(log)
        check_exchange(events)
        assert events[-1]["status"] == "ok", "longer than a model may be silent"
        hold.released.clear()
    # A model that has much time, so that a busy machine is not taken for a silent model.
    async with open_sessions(tmp_path, agents, limits=LimitsSettings(tool_timeout_s=0.5)) as sessions:
        events = await sessions.ask("call work()")
        failed(events, "limit_reached")
        assert "the tool 'work' did not end" in events[-1]["error"]["content"]
        await goes_on(sessions, events[0]["session_id"])


async def test_the_start_of_an_agent_is_not_the_silence_of_its_model(tmp_path: Path) -> None:
    journal = Journal(building=lambda: asyncio.sleep(3))
    limits = LimitsSettings(model_timeout_s=2.5)
    async with open_sessions(tmp_path, {"slow": journal.agent_class()}, limits=limits) as sessions:
        events = await sessions.ask("hello")
        check_exchange(events)
        assert events[-1]["status"] == "ok"


async def test_a_stop_while_the_agent_is_built_closes_what_was_opened(tmp_path: Path) -> None:
    journal = Journal(building=lambda: asyncio.sleep(3600), closing=lambda: asyncio.sleep(0.1))
    async with open_sessions(tmp_path, {"slow": journal.agent_class(), "echo": echoing_graph()}) as sessions:
        log = await sessions.begin("hello")
        await eventually(lambda: journal.built)
        assert await sessions.service.cancel(USER, log.session_id or "")
        events = await events_of(log)
        check_exchange(events)
        assert events[-1]["status"] == "stopped"
        await eventually(lambda: journal.closed == journal.built)
        await goes_on(sessions, log.session_id or "")


async def test_the_final_does_not_wait_for_the_closing_of_a_querys_agent(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def wait() -> None:
        await go_on.wait()

    journal = Journal(closing=wait)
    async with open_sessions(tmp_path, {"slow": journal.agent_class()}) as sessions:
        events = await sessions.ask("hello", mode="query")
        check_exchange(events)
        assert not journal.closed
        go_on.set()
        await eventually(lambda: journal.closed)


async def test_a_query_that_wants_a_person_fails(tmp_path: Path) -> None:
    def ask_person(state: MessagesState) -> dict[str, Any]:
        interrupt("Which one?")
        return {"messages": []}

    async with open_sessions(tmp_path, {"asking": one_node(ask_person)}) as sessions:
        failed(await sessions.ask("hello", mode="query"), "limit_reached")


async def test_deleting_a_session_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}) as sessions:
        log = await sessions.begin("hello")
        await eventually(lambda: hold.held)
        await sessions.service.delete(USER, log.session_id or "")
        events = await events_of(log)
        assert events[-1]["status"] == "stopped"
        assert await sessions.store.real.get_session(log.session_id or "") is None
        assert await sessions.stored(log.session_id) == []
        assert hold.held == 0


async def test_an_exchange_whose_session_vanishes_is_interrupted(tmp_path: Path) -> None:
    """Another instance has taken the session over, or deleted it."""
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}) as sessions:
        log = await sessions.begin("hello")
        await until(log, "delta")
        await sessions.store.real.delete_session(log.session_id or "")
        hold.released.set()
        events = await events_of(log)
        assert (events[-1]["status"], events[-1]["error"]["code"]) == ("interrupted", "interrupted")
        assert [event["type"] for event in events][-2:] == ["error", "final"]
        assert [message["role"] for message in events[-1]["messages"]] == ["user"], "nothing that isn't stored"
        assert metric(sessions.kpi, "chat_running_exchanges") == 0


async def test_many_exchanges_at_once_each_end_once(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        logs = await asyncio.gather(*(sessions.begin(f"hello {number}") for number in range(100)))
        for log in logs:
            # However long all of them take together.
            await log.wait_ended()
            events = await events_of(log)
            check_exchange(events)
            assert final_text(events) == f"echo: {text_of(events[-1]['messages'][0])}"
        assert metric(sessions.kpi, "chat_exchange_total", agent_id="echo", status="ok") == 100


async def test_a_long_message_of_a_node_is_whole(tmp_path: Path) -> None:
    text = "long " * 100_000
    async with open_sessions(tmp_path, {"long": one_node(lambda state: {"messages": [AIMessage(text)]})}) as sessions:
        events = await sessions.ask("hello")
        check_exchange(events)
        assert final_text(events) == text
        assert text_of((await sessions.stored(events[0]["session_id"]))[1]) == text
