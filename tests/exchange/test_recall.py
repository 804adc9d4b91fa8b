"""Recall: what the next exchange starts from, with the agent still warm, built anew, and after a restart."""

import dataclasses
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolNode
from support.chat_client import check_exchange, final_text
from support.further_cases import further
from support.noting_agent import noting_graph
from support.recorded_agents import metric
from support.sessions import USER, WHOLE_HISTORY, Sessions, open_sessions

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.agents.state import kept_state
from agentic_backend.agents.state.kept_state import Kept, pack_states, unpack_states
from agentic_backend.auth.user import User
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.errors import SessionNotFound
from agentic_backend.exchange.past import recall
from agentic_backend.protocol.messages import Channel, ExchangeStatus, Role, TokenUsage, utc_now
from agentic_backend.protocol.parts import TextPart
from agentic_backend.stores.base import STATES_KEPT, ExchangeEnd, Fence
from agentic_backend.stores.records import ExchangeRecord, MessageDraft
from agentic_backend.testing import ScriptedModel, Turn

AGENTS = {"noting": noting_graph(), "other": noting_graph("other ")}


async def say(sessions: Sessions, message: str, session_id: str | None = None, **fields: Any) -> tuple[str, str]:
    """The answer to `message`, and the session's id."""
    events = await sessions.ask(message, session_id=session_id, **fields)
    check_exchange(events)
    return final_text(events), events[0]["session_id"]


async def test_a_graphs_own_channels_go_on_while_its_agent_is_warm(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, AGENTS) as sessions:
        answer, session_id = await say(sessions, "note this")
        assert answer == "1 this note this"
        assert (await say(sessions, "a", session_id))[0] == "2 this note this|a"
        assert (await say(sessions, "forget", session_id))[0] == "3 this note this|a|forget"
        assert (await say(sessions, "b", session_id))[0] == "4 None note this|a|forget|b"
        assert metric(sessions.kpi, "chat_agent_cache_total", outcome="hit") == 3


async def test_a_graphs_own_channels_go_on_after_an_eviction(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, AGENTS, cache_size=1) as sessions:
        session_id, answers = None, []
        for message in ("note this", "a", "forget", "b"):
            answer, session_id = await say(sessions, message, session_id)
            answers.append(answer)
            await say(sessions, "in another session")
        assert [answer.split(" note")[0] for answer in answers] == ["1 this", "2 this", "3 this", "4 None"]
        assert metric(sessions.kpi, "chat_agent_cache_total", outcome="hit") == 0


async def test_a_graphs_own_channels_go_on_after_a_restart(tmp_path: Path) -> None:
    session_id, answers = None, []
    for message in ("note this", "a", "forget", "b"):
        async with open_sessions(tmp_path, AGENTS) as sessions:
            answer, session_id = await say(sessions, message, session_id)
            answers.append(answer)
    assert [answer.split(" note")[0] for answer in answers] == ["1 this", "2 this", "3 this", "4 None"]


async def test_an_exchange_that_changes_nothing_leaves_no_state_of_its_own(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, AGENTS, profiles=WHOLE_HISTORY) as sessions:
        _, session_id = await say(sessions, "note this")
        for _ in range(STATES_KEPT + 1):
            assert (await sessions.ask("fail", session_id=session_id))[-1]["status"] == "error"
        first = await sessions.store.real.session_state(session_id, 2)
        assert first is not None and first == await sessions.store.real.session_state(session_id)
        assert (await say(sessions, "a", session_id))[0].startswith("2 this fail|fail|")


@pytest.mark.parametrize("damage", [b"", b"garbage", pack_states({"noting": b"garbage"})])
async def test_everything_comes_from_the_stored_messages_where_the_state_cant_be_read(
    tmp_path: Path, damage: bytes
) -> None:
    async with open_sessions(tmp_path, AGENTS) as sessions:
        _, session_id = await say(sessions, "note this")
        await say(sessions, "a", session_id)
    with sqlite3.connect(tmp_path / "chat.sqlite3") as database:
        database.execute("UPDATE session_states SET state = ?", (damage,))
    database.close()
    async with open_sessions(tmp_path, AGENTS) as sessions:
        assert (await say(sessions, "b", session_id))[0] == "1 None note this|a|b"
        assert (await say(sessions, "c", session_id))[0] == "2 None note this|a|b|c"


async def test_what_is_too_large_to_be_kept_comes_from_the_stored_messages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    large = "x" * 260_000
    async with open_sessions(tmp_path, AGENTS, profiles=WHOLE_HISTORY) as sessions:
        _, session_id = await say(sessions, "note this")
        for _ in range(4):
            answer, _ = await say(sessions, large, session_id)
        assert len(answer) > 4 * len(large)
        assert (await say(sessions, "a", session_id))[0] == f"6 {answer.removeprefix('5 ')}|a"
    assert "graph messages too large" in caplog.messages


async def test_of_states_that_are_too_large_together_the_messages_of_earlier_agents_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_sessions(tmp_path, AGENTS, cache_size=1) as sessions:
        _, session_id = await say(sessions, "note this")
        before = await sessions.store.real.session_state(session_id)
        assert before is not None
        monkeypatch.setattr(recall, "STATE_BYTES", 2 * len(before))
        await say(sessions, "note theirs", session_id, agent_id="other")
        stored = await sessions.store.real.session_state(session_id)
        assert stored is not None
        kept = {agent_id: Kept.unpack(state) for agent_id, state in unpack_states(stored).items()}
        assert [(agent_id, one.messages is None) for agent_id, one in kept.items()] == [
            ("noting", True),
            ("other", False),
        ]
        assert (await say(sessions, "a", session_id))[0] == "2 this note this|note theirs|a"


async def test_an_agent_with_a_kept_state_reads_no_message_of_its_own_again(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, AGENTS, cache_size=1) as sessions:
        _, session_id = await say(sessions, "note this")
        await say(sessions, "in another session")
        rows = sessions.store.real.last_exchanges

        async def read(*_: Any) -> list[Any]:
            raise AssertionError("what its graph left is all that it needs")

        sessions.store.real.last_exchanges = read  # type: ignore[method-assign]
        assert (await say(sessions, "a", session_id))[0] == "2 this note this|a"
        sessions.store.real.last_exchanges = rows  # type: ignore[method-assign]


@pytest.mark.parametrize("cache_size", [1, 8])
async def test_after_a_reset_every_agent_begins_anew(tmp_path: Path, cache_size: int) -> None:
    async with open_sessions(tmp_path, AGENTS, cache_size=cache_size) as sessions:
        _, session_id = await say(sessions, "note this")
        await say(sessions, "note theirs", session_id, agent_id="other")
        for _ in range(2):
            await sessions.service.reset_state(USER, session_id)
        assert (await say(sessions, "a", session_id))[0] == "1 None a"
        assert (await say(sessions, "b", session_id, agent_id="other"))[0] == "other 1 None a|b"
        assert (await say(sessions, "note that", session_id))[0] == "2 that a|b|note that"
        assert len(await sessions.stored(session_id)) == 10


async def test_only_the_owner_of_a_session_resets_its_state(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, AGENTS) as sessions:
        _, session_id = await say(sessions, "note this")
        with pytest.raises(SessionNotFound):
            await sessions.service.reset_state(User(id="bob", name="Bob"), session_id)
        assert (await say(sessions, "a", session_id))[0] == "2 this note this|a"


async def test_a_reset_by_another_instance_is_seen_by_a_warm_agent(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, AGENTS) as sessions:
        _, session_id = await say(sessions, "note this")
        await sessions.store.real.reset_state(session_id)
        assert (await say(sessions, "a", session_id))[0] == "1 None a"
        assert metric(sessions.kpi, "chat_agent_cache_total", outcome="hit") == 1


@pytest.mark.parametrize("cache_size", [1, 8])
async def test_agents_that_take_turns_each_keep_their_own(tmp_path: Path, cache_size: int) -> None:
    async with open_sessions(tmp_path, AGENTS, cache_size=cache_size) as sessions:
        _, session_id = await say(sessions, "note mine")
        turns = [("other", "note theirs"), ("noting", "a"), ("other", "b"), ("noting", "c")]
        answers = [(await say(sessions, text, session_id, agent_id=agent))[0] for agent, text in turns]
    assert [answer.split(" note mine")[0] for answer in answers] == [
        "other 1 theirs",
        "2 mine",
        "other 2 theirs",
        "3 mine",
    ]
    assert answers[-1].endswith("note mine|note theirs|a|b|c"), "the transcript is the session's"


@pytest.mark.parametrize("warm", [True, False])
async def test_an_exchange_that_fails_leaves_what_was_there(tmp_path: Path, warm: bool) -> None:
    async with open_sessions(tmp_path, AGENTS, cache_size=8 if warm else 1) as sessions:
        _, session_id = await say(sessions, "note this")
        events = await sessions.ask("fail", session_id=session_id)
        check_exchange(events)
        assert events[-1]["status"] == "error"
        if not warm:
            await say(sessions, "in another session")
        assert (await say(sessions, "a", session_id))[0].startswith("2 this")


async def test_what_is_warm_is_not_used_once_another_has_written(tmp_path: Path) -> None:
    """Another instance has run an exchange in the session: the store knows more than this process does."""
    async with open_sessions(tmp_path, AGENTS) as sessions:
        _, session_id = await say(sessions, "note this")
        await write_elsewhere(sessions, session_id, "from elsewhere")
        assert (await say(sessions, "a", session_id))[0] == "2 this note this|from elsewhere|a"


async def write_elsewhere(sessions: Sessions, session_id: str, text: str) -> None:
    store = sessions.store.real
    record = ExchangeRecord(
        id="elsewhere",
        session_id=session_id,
        user_id=USER.id,
        agent_id="noting",
        request_id="request",
        started_at=utc_now(),
    )
    asked = MessageDraft(role=Role.USER, channel=Channel.FINAL, parts=[TextPart(text=text)])
    written = await store.begin_exchange(record, asked)
    answer = MessageDraft(role=Role.ASSISTANT, channel=Channel.FINAL, parts=[TextPart(text="answered there")])
    end = ExchangeEnd(status=ExchangeStatus.OK, usage=TokenUsage(), last_seq=4)
    await store.append(Fence(session_id, record.id, written.session.next_rank), [answer], end)


async def test_a_query_neither_has_a_memory_nor_leaves_one(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, AGENTS) as sessions:
        for _ in range(2):
            assert (await say(sessions, "note this", mode="query"))[0] == "1 this note this"


class Handle:
    """What can't be serialized."""

    def __reduce__(self) -> str:
        raise TypeError("an open handle")


@dataclasses.dataclass
class Mood:
    name: str


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is green"


def telling_graph(change: Callable[[list[Any]], Sequence[Any]]) -> CompiledGraph:
    """Tells of all that it was given, after a call of a tool; `change` gets its messages, and says what it writes."""

    async def call(state: MessagesState) -> dict[str, Any]:
        asked = {"id": f"call {len(state['messages'])}", "name": "look", "args": {"place": "the hill"}}
        return {"messages": [AIMessage("I look.", tool_calls=[asked])]}

    async def answer(state: MessagesState) -> dict[str, Any]:
        told = " ".join(f"[{one.type}: {one.text}{one.additional_kwargs or ''}]" for one in state["messages"][:-2])
        metadata = {"model_provider": "one", "finish_reason": "stop"}
        answer = AIMessage(f"{len(state['messages'])} {told}"[:200], response_metadata=metadata)
        return {"messages": [*change(state["messages"]), answer]}

    graph = StateGraph(MessagesState)
    graph.add_node("call", call)
    graph.add_node("tools", ToolNode([look]))
    graph.add_node("answer", answer)
    graph.add_edge(START, "call")
    graph.add_edge("call", "tools")
    graph.add_edge("tools", "answer")
    return graph.compile()


async def test_what_the_transcript_says_as_well_is_not_kept_beside_it(tmp_path: Path) -> None:
    """Also of a session that is longer than what an agent is given."""
    agents, limits, answers = {"telling": telling_graph(lambda messages: [])}, LimitsSettings(history_exchanges=2), []
    opened = partial(open_sessions, agents=agents, limits=limits)
    for cache_size, restarts in ((8, False), (1, False), (8, True)):
        directory, session_id = tmp_path / f"{cache_size} {restarts}", None
        directory.mkdir()
        said: list[str] = []
        async with AsyncExitStack() as stack:
            sessions = await stack.enter_async_context(opened(directory, cache_size=cache_size))
            for message in ("a", "b", "c", "d", "e"):
                answer, session_id = await say(sessions, message, session_id)
                said.append(answer)
                assert await sessions.store.real.session_state(session_id) is None
                if cache_size == 1:
                    await say(sessions, "in another session")
                if restarts:
                    await stack.aclose()
                    sessions = await stack.enter_async_context(opened(directory, cache_size=cache_size))
        answers.append(said)
    assert [answer.split()[0] for answer in answers[0]] == ["3", "7", "11", "11", "11"]
    assert "[tool: the hill is green]" in answers[0][1]
    assert answers[1] == answers[2] == answers[0]


@pytest.mark.parametrize("beside", ["thinking", "answering", "many"])
async def test_more_than_is_read_again_at_once_is_kept(tmp_path: Path, beside: str) -> None:
    """Also of what is stored for people alone, which the graph does not have."""

    async def answer(state: MessagesState) -> dict[str, Any]:
        long = "x" * (recall.LONGEST_STORED if len(state["messages"]) > 1 else 1)
        if beside == "thinking":
            said = await ScriptedModel(Turn("ok", reasoning=long)).ainvoke(state["messages"])
            return {"messages": [AIMessage(said.text, id=said.id)]}
        if beside == "many" and len(state["messages"]) > 1:
            return {"messages": [AIMessage("ok") for _ in range(recall._MOST_STORED)]}
        return {"messages": [AIMessage(long)]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    async with open_sessions(tmp_path, {"telling": graph.compile()}) as sessions:
        events = await sessions.ask("a")
        session_id = events[0]["session_id"]
        assert await sessions.store.real.session_state(session_id) is None
        await sessions.ask("b", session_id=session_id)
        assert await sessions.store.real.session_state(session_id) is not None


def removed(messages: list[Any]) -> Sequence[Any]:
    return [RemoveMessage(messages[0].id)]


def changed_in_place(messages: list[Any]) -> Sequence[Any]:
    messages[0].content = "changed"
    return []


def annotated_in_place(messages: list[Any]) -> Sequence[Any]:
    messages[0].additional_kwargs["mood"] = "calm"
    return []


def put_in_front(messages: list[Any]) -> Sequence[Any]:
    return [RemoveMessage(REMOVE_ALL_MESSAGES), SystemMessage("Be brief."), *messages]


def with_an_id_of_its_own(messages: list[Any]) -> Sequence[Any]:
    return [AIMessage("beside", id="status")]


CHANGES = [
    with_an_id_of_its_own,
    removed,
    changed_in_place,
    annotated_in_place,
    put_in_front,
    lambda messages: [SystemMessage("Be brief.")],
    lambda messages: [AIMessage("beside", additional_kwargs={"mood": "calm"})],
    lambda messages: [AIMessage("beside", response_metadata={"source": "a page"})],
    lambda messages: [HumanMessage([{"type": "text", "text": "in a block"}])],
]


@pytest.mark.parametrize(
    ("change", "begins_plain"),
    [
        *((change, True) for change in CHANGES),
        # What begins otherwise is never read from the transcript: one change of what is there, and one of what is new.
        *((change, False) for change in CHANGES[:2]),
        *(further(change, False) for change in CHANGES[2:]),
    ],
)
async def test_what_a_graph_has_that_the_transcript_has_not_is_kept(
    tmp_path: Path, change: Callable[[list[Any]], Sequence[Any]], begins_plain: bool
) -> None:
    """Also if the exchanges before have left what the transcript says."""
    warm, cold = [], []
    for answers, cache_size in ((warm, 8), (cold, 1)):
        directory, session_id = tmp_path / str(cache_size), None

        def changing(messages: list[Any]) -> Sequence[Any]:
            return change(messages) if "now" in messages[-3].text else []

        directory.mkdir()
        async with open_sessions(directory, {"telling": telling_graph(changing)}, cache_size=cache_size) as sessions:
            for message in [*(["a", "b"] if begins_plain else []), "now", "c", "d"]:
                answer, session_id = await say(sessions, message, session_id)
                answers.append(answer)
                await say(sessions, "in another session")
            assert await sessions.store.real.session_state(session_id) is not None
    assert cold == warm


class Mixed(MessagesState):
    handle: Any
    mood: Mood
    count: int


@pytest.mark.parametrize(("text", "in_thread"), [("short", False), ("long " * 20_000, True)])
async def test_long_messages_are_packed_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, in_thread: bool
) -> None:
    threads: list[int] = []

    def pack_messages(*args: Any) -> Any:
        threads.append(threading.get_ident())
        return kept_state.pack_messages(*args)

    monkeypatch.setattr(recall, "pack_messages", pack_messages)
    graph = StateGraph(MessagesState)
    graph.add_node("answer", lambda state: {"messages": [AIMessage(text, id="status")]})
    graph.add_edge(START, "answer")
    async with open_sessions(tmp_path, {"plain": graph.compile()}) as sessions:
        await say(sessions, "a")
    assert [thread != threading.get_ident() for thread in threads] == [in_thread]


async def test_what_cannot_be_stored_keeps_nothing_else_from_being_kept(tmp_path: Path) -> None:
    def answer(state: Mixed) -> dict[str, Any]:
        count = state.get("count", 0) + 1
        told = f"{count} {state.get('mood')} {'handle' in state and state['handle'] is not None}"
        return {"messages": [AIMessage(told)], "handle": Handle(), "mood": Mood("good"), "count": count}

    graph = StateGraph(Mixed)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    async with open_sessions(tmp_path, {"mixed": graph.compile()}) as sessions:
        answer_text, session_id = await say(sessions, "a")
        assert answer_text == "1 None False"
        assert (await say(sessions, "b", session_id))[0] == "2 Mood(name='good') False"
    async with open_sessions(tmp_path, {"mixed": graph.compile()}) as sessions:
        assert (await say(sessions, "c", session_id))[0] == "3 Mood(name='good') False"
