"""What a provider answers reaches whoever asked: text, calls of tools, titles, history."""

import asyncio
from pathlib import Path
from typing import Any

from support.chat_client import chat, check_exchange, final_text
from support.providers.model_server import TITLE, ModelServer
from support.providers.reply import USAGE, Reply, calls
from support.running_server import RunningServer, running_server


async def test_an_answer_streams_through_the_provider(provider: ModelServer, model: str, server: RunningServer) -> None:
    first_word_shown = asyncio.Event()
    provider.reply = lambda messages: Reply("one two three four five", go_on=first_word_shown)
    async with chat(server.address) as client:
        await client.send({"message": "hello"})
        assert (await client.until("delta"))["text"] == "one"
        first_word_shown.set()
        await client.until("final")
    events = [event for event in client.events if "seq" in event]
    check_exchange(events)
    assert final_text(events) == "one two three four five"
    [request] = provider.asked
    assert request.body["stream"] is True
    assert f":{request.body['model']}" in model
    assert events[-1]["messages"][-1]["metadata"]["model"] == request.dialect.model
    assert events[-1]["messages"][-1]["metadata"]["finish_reason"] == "stop"
    assert events[-1]["usage"] == USAGE


async def test_the_key_alone_selects_openai(provider: ModelServer, tmp_path: Path) -> None:
    settings = {"models": {"default": {"model": "auto"}}}
    async with running_server(tmp_path, settings=settings) as server, chat(server.address) as client:
        assert final_text(await client.ask("hello")) == "You said: hello"
    [request] = provider.asked
    assert request.headers["authorization"].startswith("Bearer sk-")
    assert request.body["model"] == "gpt-5.4-mini"


async def test_the_session_gets_its_title_from_the_provider(provider: ModelServer, server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "hello"})
        types = {event["type"] for event in [await client.until("session", "final") for _ in range(2)]}
        assert types == {"session", "final"}
        [session] = [event["session"] for event in client.events if event["type"] == "session"]
        assert session["title"] == TITLE
        check_exchange(client.events)
    assert TITLE not in str([event for event in client.events if event["type"] in ("delta", "stream")])


async def test_a_tool_is_called_and_its_result_goes_back(provider: ModelServer, server: RunningServer) -> None:
    def reply(messages: list[dict[str, Any]]) -> Reply:
        if messages[-1]["role"] == "tool":
            return Reply(f"It is {messages[-1]['content']}")
        return calls(calculate={"expression": "12*34"}, current_time={"city": "Tokyo"})

    provider.reply = reply
    async with chat(server.address) as client:
        events = await client.ask("what is 12*34?")
    check_exchange(events)
    [calling] = [message for message in events[-1]["messages"] if message["channel"] == "tool_call"]
    assert [part["name"] for part in calling["parts"]] == ["calculate", "current_time"]
    assert calling["metadata"]["finish_reason"] == "tool_calls"
    results = [part for message in events[-1]["messages"] for part in message["parts"] if part["type"] == "tool_result"]
    assert results[0]["content"] == "12*34 = 408" and results[0]["ok"]
    assert final_text(events).startswith("It is In Tokyo")
    assert set(provider.asked[0].asked.tools) == {"current_time", "calculate", "slow_task", "search_documents"}
    called, answered = [], []
    for message in provider.asked[1].asked.messages:
        called += [call["id"] for call in message.get("tool_calls", ())]
        answered += [message["tool_call_id"]] if "tool_call_id" in message else []
    assert called == answered == ["call_calculate", "call_current_time"]


async def test_the_provider_is_given_the_history(provider: ModelServer, server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("first")
        await client.ask("second", session_id=events[0]["session_id"])
    asked = provider.asked[1].asked
    assert asked.system
    assert [(message["role"], message["content"]) for message in asked.messages] == [
        ("user", "first"),
        ("assistant", "You said: first"),
        ("user", "second"),
    ]
