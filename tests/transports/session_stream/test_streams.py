"""What a stream of the session stream shows: the answer's text, the calls of tools, and one end."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from support import wire_agents
from support.approval_agents import ENTRIES as APPROVING
from support.approval_agents import calls
from support.hostile_modules import MADE, Acting, entry
from support.rest_client import rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES
from support.tool_sessions import answer_in, conversation, history, opened, sent, tool_client

from agentic_backend.offline.model import OfflineChatModel

HERE = __name__
TWO_TOOLS = "What time is it in Tokyo, and what is 12*34?"


@tool
async def look_up() -> str:
    """Look it up."""
    return "the secret result"


graph = create_agent(OfflineChatModel(words_per_second=0), tools=[look_up])


def _says(text: str) -> Any:
    async def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await OfflineChatModel(words_per_second=0).ainvoke(f"repeat after me: {text}")]}

    return node


def _two_texts() -> Any:
    drawn = StateGraph(MessagesState)
    drawn.add_node("plan", _says("First a plan."))
    drawn.add_node("answer", _says("Then the answer."))
    drawn.add_edge(START, "plan")
    drawn.add_edge("plan", "answer")
    return drawn.compile()


two_texts = _two_texts()


def _silent() -> Any:
    drawn = StateGraph(MessagesState)
    drawn.add_node("nothing", lambda state: {})
    drawn.add_edge(START, "nothing")
    return drawn.compile()


silent = _silent()
AGENTS: list[dict[str, Any]] = [
    *ENTRIES,
    *APPROVING,
    {"id": "breaks-in-the-middle", "class_path": f"{wire_agents.MODULE}:breaks_in_the_middle"},
    {"id": "tools", "class_path": f"{HERE}:graph"},
    {"id": "held", "class_path": f"{HERE}:graph", "hold_output": True},
    {"id": "two-texts", "class_path": f"{HERE}:two_texts"},
    {"id": "final-only", "class_path": f"{HERE}:two_texts", "stream": "final_only"},
    {"id": "silent", "class_path": f"{HERE}:silent"},
    {"id": "json", "class_path": "graphs.texts:structured_by_provider"},
]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=AGENTS) as server:
        yield server


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with a module that does what a test tells it."""
    file = tmp_path / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": [entry()]}))
    MADE.clear()
    async with running_server(tmp_path, agents=AGENTS, settings={"modules": {"file": str(file)}}) as server:
        yield server


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """The types of the events, of chunks in a row only one."""
    types = [event["type"] for event in events]
    return [kind for before, kind in zip([None, *types], types, strict=False) if kind != "chunk" or before != "chunk"]


async def test_an_answer_is_streamed_as_it_is_written(tmp_path: Path) -> None:
    slow = {"models": {"default": {"model": "offline", "options": {"words_per_second": 40}}}}
    async with running_server(tmp_path, settings=slow) as server, tool_client(server) as http:
        session_id = await opened(http)
        events = await sent(http, session_id, "write 40 words")
        chunks = [event for event in events if event["type"] == "chunk"]
        assert len(chunks) > 3
        assert all(set(chunk) == {"type", "content"} for chunk in chunks)
        assert ("assistant", "".join(chunk["content"] for chunk in chunks)) in await conversation(http, session_id)


async def test_calls_of_tools_and_their_results_are_shown_with_what_the_answer_took(server: RunningServer) -> None:
    async with tool_client(server) as http:
        session_id = await opened(http)
        events = await sent(http, session_id, TWO_TOOLS)
        assert kinds(events) == ["chunk", "tool_call", "tool_call", "tool_result", "tool_result", "chunk", "done"]
        called = {event["toolCall"]["id"]: event["toolCall"] for event in events if event["type"] == "tool_call"}
        assert {call["name"] for call in called.values()} == {"current_time", "calculate"}
        results = [event["toolResult"] for event in events if event["type"] == "tool_result"]
        assert {result["id"] for result in results} == set(called)
        [product] = [result for result in results if called[result["id"]]["name"] == "calculate"]
        assert "408" in product["result"] and product["ok"] is True
        meta = events[-1]["meta"]
        assert meta["model"] and meta["latencyMs"] >= 0 and meta["finishReason"] == "stop"
        assert meta["tokens"]["total"] == meta["tokens"]["input"] + meta["tokens"]["output"] > 0
        async with rest(server) as other:
            usage = (await other.get(f"/exchanges/{meta['exchangeId']}")).json()["usage"]
        assert meta["tokens"] == {name.removesuffix("_tokens"): count for name, count in usage.items()}
        [answer] = [one for one in await history(http, session_id) if one["seq"] == meta["seq"]]
        assert (answer["role"], answer["content"]) == ("assistant", answer_in(events))


async def test_text_before_a_tool_call_is_taken_back_when_the_tool_is_called(server: RunningServer) -> None:
    async with tool_client(server) as http:
        session_id = await opened(http)
        events = await sent(http, session_id, TWO_TOOLS)
        before = events[: [event["type"] for event in events].index("tool_call")]
        shown = [event["content"] for event in before if event["type"] == before[0]["type"]]
        assert "".join(shown).startswith("Let me")
        assert answer_in(before) == ""
        assert "Let me" not in answer_in(events) and "408" in answer_in(events)
        observed = [one["content"] for one in await history(http, session_id) if one["channel"] == "observation"]
        assert [text[:6] for text in observed] == ["Let me"]


@pytest.mark.parametrize(
    ("tool_id", "content", "answer"),
    [
        ("echo", "hello", "echo: hello"),
        ("two-texts", "hello", "Then the answer."),
        ("final-only", "hello", "Then the answer."),
        ("held", "repeat after me: held back", "held back"),
        ("silent", "hello", ""),
        ("assistant", "think about repeat after me: a thought", "a thought"),
        ("assistant", "quit", None),
        ("json", "hello", None),
    ],
)
async def test_the_chunks_together_are_the_stored_answer(
    server: RunningServer, tool_id: str, content: str, answer: str | None
) -> None:
    async with tool_client(server) as http:
        session_id = await opened(http, tool_id)
        events = await sent(http, session_id, content)
        [asked, answered] = await conversation(http, session_id)
        assert asked == ("user", content)
        assert answered == ("assistant", answer_in(events))
        assert answer is None or answer_in(events) == answer
        assert events[-1]["type"] == "done"


@pytest.mark.parametrize("tool_id", ["tools", "held"])
async def test_what_a_module_makes_of_the_answer_is_what_the_client_has_in_the_end(
    guarded: RunningServer, tool_id: str
) -> None:
    MADE[0].settings = Acting.Settings(after="redact")
    async with tool_client(guarded) as http:
        session_id = await opened(http, tool_id)
        events = await sent(http, session_id, "repeat after me: my secret is out")
        assert answer_in(events) == "my *** is out"
        assert ("secret" in str(events)) == (tool_id == "tools")
        assert (await conversation(http, session_id))[-1] == ("assistant", "my *** is out")
        assert events[-1]["type"] == "done" and "blocked" not in events[-1]["meta"]


@pytest.mark.parametrize(
    ("before", "after", "answer"),
    [("block_word", "", "That is not said here."), ("", "block", "This can't be answered here.")],
)
@pytest.mark.parametrize("tool_id", ["tools", "held"])
async def test_a_blocked_message_is_answered_by_what_the_module_says(
    guarded: RunningServer, tool_id: str, before: str, after: str, answer: str
) -> None:
    MADE[0].settings = Acting.Settings(before=before, after=after)
    async with tool_client(guarded) as http:
        session_id = await opened(http, tool_id)
        events = await sent(http, session_id, "my secret")
        assert answer_in(events) == answer
        assert events[-1]["meta"]["blocked"] is True
        assert (await conversation(http, session_id))[-1] == ("assistant", answer)


async def test_a_failure_is_an_error_with_its_category_and_keeps_the_text_so_far(server: RunningServer) -> None:
    async with tool_client(server) as http:
        session_id = await opened(http)
        events = await sent(http, session_id, "fail after 20 tokens")
        error = events[-1]
        assert (error["type"], error["category"], error["code"]) == ("error", "ai_gateway", "model_error")
        assert error["retryable"] is True and error["error"] and error["requestId"] and error["exchangeId"]
        assert len(answer_in(events).split()) > 5
        messages = await history(http, session_id)
        [kept] = [one for one in messages if (one["role"], one["channel"]) == ("assistant", "final")]
        assert kept["content"] == answer_in(events)
        assert [one["content"] for one in messages if one["channel"] == "error"] == [error["error"]]


@pytest.mark.parametrize("tool_id", ["raising", "breaks-in-the-middle", "fails-in-init"])
async def test_the_error_of_an_agent_tells_nothing_of_its_code(server: RunningServer, tool_id: str) -> None:
    async with tool_client(server) as http:
        events = await sent(http, await opened(http, tool_id), "hello")
        assert events[-1]["category"] == "internal"
        assert "secret" not in str(events) and "support." not in str(events)


async def test_the_same_message_twice_is_two_turns(server: RunningServer) -> None:
    async with tool_client(server) as http:
        session_id = await opened(http, "echo")
        first, second = [(await sent(http, session_id, "hello"))[-1]["meta"] for _ in range(2)]
        assert first["exchangeId"] != second["exchangeId"]
        assert await conversation(http, session_id) == [("user", "hello"), ("assistant", "echo: hello")] * 2


async def test_a_stream_whose_exchange_waits_for_a_person_says_so_and_ends(server: RunningServer) -> None:
    async with tool_client(server) as http, rest(server) as other:
        session_id = await opened(http, "asking")
        events = await sent(http, session_id, "hello")
        error = events[-1]
        assert (error["type"], error["category"], error["code"]) == ("error", "conflict", "awaiting_human")
        assert error["retryable"] is False
        path = f"/exchanges/{error['exchangeId']}"
        assert f"/agentic/v1{path}/resume" in error["error"]
        record = (await other.get(path)).json()
        assert record["status"] == "awaiting_human"
        busy = await http.post(f"/sessions/{session_id}/messages", json={"content": "hello?"})
        assert (busy.status_code, busy.json()["code"]) == (409, "session_busy")
        [request] = record["pending"]["requests"]
        payload = {"answers": {request["interrupt_id"]: "left"}}
        await other.post(f"{path}/resume", json={"payload": payload})
        assert (await conversation(http, session_id))[-1] == ("assistant", "You chose left.")


async def test_a_waiting_exchange_is_ended_by_a_cancel(server: RunningServer) -> None:
    async with tool_client(server) as http:
        session_id = await opened(http, "approving")
        content = calls(("send_email", {"to": "ann@example.org", "body": "Hello", "copies": 1}))
        called, error = await sent(http, session_id, content)
        assert (called["toolCall"]["name"], error["code"]) == ("send_email", "awaiting_human")
        assert (await http.post(f"/sessions/{session_id}/cancel")).json() == {"cancelled": True}
        assert (await sent(http, session_id, "hello"))[-1]["type"] == "done"
