"""The shipped assistant on the provider that OPENAI_API_KEY selects: the real client, against a server of the tests."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.chat_client import ChatClient, Event, chat, check_exchange, final_text, text_of
from support.openai_server import MODEL, TITLE, OpenAiServer, Reply, calls, openai_server
from support.recorded_agents import eventually
from support.running_server import RunningServer, running_server

KEY = "sk-of-the-tests-0123456789abcdef"


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OpenAiServer]:
    async with openai_server() as provider:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        yield provider


@pytest.fixture
async def server(
    provider: OpenAiServer, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[RunningServer]:
    """A parameter is the time that a model may be silent, in seconds."""
    limits = {"model_timeout_s": getattr(request, "param", 15)}
    async with running_server(
        tmp_path, settings={"models": {"default": {"model": "auto"}}, "limits": limits}
    ) as server:
        yield server


async def test_an_answer_streams_through_the_provider(provider: OpenAiServer, server: RunningServer) -> None:
    provider.reply = lambda messages: Reply("one two three four five", pause_s=0.04)
    async with chat(server.address) as client:
        events = await client.ask("hello")
    check_exchange(events)
    assert final_text(events) == "one two three four five"
    assert len([event for event in events if event["type"] == "delta"]) > 1
    [request] = provider.asked
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["stream"] is True
    assert request.body["model"] == "gpt-5-mini"
    assert events[-1]["messages"][-1]["metadata"]["model"] == MODEL
    assert events[-1]["usage"] == {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}


async def test_the_session_gets_its_title_from_the_provider(provider: OpenAiServer, server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "hello"})
        types = {event["type"] for event in [await client.until("session", "final") for _ in range(2)]}
        assert types == {"session", "final"}
        [session] = [event["session"] for event in client.events if event["type"] == "session"]
        assert session["title"] == TITLE
        check_exchange(client.events)
    assert TITLE not in str([event for event in client.events if event["type"] in ("delta", "stream")])


async def test_a_tool_is_called_and_its_result_goes_back(provider: OpenAiServer, server: RunningServer) -> None:
    def reply(messages: list[dict[str, Any]]) -> Reply:
        if messages[-1]["role"] == "tool":
            return Reply(f"It is {messages[-1]['content']}")
        return calls(calculate={"expression": "12*34"}, current_time={"city": "Tokyo"})

    provider.reply = reply
    async with chat(server.address) as client:
        events = await client.ask("what is 12*34?")
    check_exchange(events)
    results = [part for message in events[-1]["messages"] for part in message["parts"] if part["type"] == "tool_result"]
    assert results[0]["content"] == "12*34 = 408" and results[0]["ok"]
    assert final_text(events).startswith("It is In Tokyo")
    offered = {tool["function"]["name"] for tool in provider.asked[0].body["tools"]}
    assert offered == {"current_time", "calculate", "slow_task", "search_documents"}
    [call, *results] = provider.asked[1].body["messages"][-3:]
    assert [called["id"] for called in call["tool_calls"]] == [result["tool_call_id"] for result in results]


async def test_the_provider_is_given_the_history(provider: OpenAiServer, server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("first")
        await client.ask("second", session_id=events[0]["session_id"])
    system, *history = provider.asked[1].body["messages"]
    assert system["role"] == "system"
    assert [(message["role"], message["content"]) for message in history] == [
        ("user", "first"),
        ("assistant", "You said: first"),
        ("user", "second"),
    ]


@pytest.mark.parametrize(("status", "attempts"), [(500, 3), (429, 3), (401, 1), (400, 1)])
async def test_an_error_of_the_provider_is_a_model_error(
    provider: OpenAiServer, server: RunningServer, status: int, attempts: int
) -> None:
    provider.reply = lambda messages: Reply(status=status)
    async with chat(server.address) as client:
        events = await client.ask("hello")
        check_failure(events, "model_error")
        assert len(provider.asked) == attempts
        assert KEY not in str(events) and "Refused" not in str(events)
        await goes_on(client, provider, events[0]["session_id"])


@pytest.mark.parametrize(
    "failure",
    [
        Reply(status=429),
        Reply(status=503),
        Reply(cut_after=0),
        Reply("never said", cut_before_words=0),
        Reply("never said", cut_before_words=1),
    ],
    ids=["429", "503", "connection", "after its head", "after what says nothing"],
)
async def test_what_fails_before_the_first_token_is_tried_again(
    provider: OpenAiServer, server: RunningServer, failure: Reply
) -> None:
    provider.reply = lambda messages: failure if len(provider.asked) <= 2 else Reply("one two three")
    async with chat(server.address) as client:
        events = await client.ask("hello")
    check_exchange(events)
    assert events[-1]["status"] == "ok"
    assert final_text(events) == "one two three"
    assert len(provider.asked) == 3


@pytest.mark.parametrize("failure", [Reply(status=503), Reply("x", cut_before_words=0)], ids=["503", "after its head"])
async def test_how_often_it_is_tried_again_is_an_option_of_the_model(
    provider: OpenAiServer, tmp_path: Path, failure: Reply
) -> None:
    provider.reply = lambda messages: failure
    settings = {"models": {"default": {"model": "auto", "options": {"max_retries": 0}}}}
    async with running_server(tmp_path, settings=settings) as server, chat(server.address) as client:
        check_failure(await client.ask("hello"), "model_error")
    assert len(provider.asked) == 1


async def test_a_stream_that_breaks_off_is_a_model_error_and_its_text_is_kept(
    provider: OpenAiServer, server: RunningServer
) -> None:
    provider.reply = lambda messages: Reply("one two three", pause_s=0.05, cut_after=2)
    async with chat(server.address) as client:
        events = await client.ask("hello")
        check_failure(events, "model_error")
        [partial] = [message for message in events[-1]["messages"][1:] if message["channel"] == "final"]
        assert text_of(partial) == "one two"
        assert partial["metadata"]["finish_reason"] == "other"
        assert len(provider.asked) == 1, "what was said can't be said again"
        await goes_on(client, provider, events[0]["session_id"])


@pytest.mark.parametrize("server", [1], indirect=True)
@pytest.mark.parametrize("words", [0, 2])
async def test_silence_of_the_provider_is_a_model_timeout(
    provider: OpenAiServer, server: RunningServer, words: int
) -> None:
    provider.reply = lambda messages: Reply("one two three", hang_after=words)
    async with chat(server.address) as client:
        events = await client.ask("hello")
        check_failure(events, "model_timeout")
        partial = [message for message in events[-1]["messages"][1:] if message["channel"] == "final"]
        assert [text_of(message) for message in partial] == (["one two"] if words else [])
        assert all(message["metadata"]["finish_reason"] == "other" for message in partial)
        await goes_on(client, provider, events[0]["session_id"])


def check_failure(events: list[Event], code: str) -> None:
    check_exchange(events)
    assert events[-1]["status"] == "error"
    assert events[-1]["error"]["code"] == code
    assert events[-1]["error"]["retryable"]


async def goes_on(client: ChatClient, provider: OpenAiServer, session_id: str) -> None:
    """The session's next exchange is answered."""
    provider.reply = lambda messages: Reply("better now")
    events = await client.ask("again", session_id=session_id)
    check_exchange(events)
    assert final_text(events) == "better now"


async def test_a_stop_ends_the_request(provider: OpenAiServer, server: RunningServer) -> None:
    provider.reply = lambda messages: Reply("word " * 500, pause_s=0.02)
    async with chat(server.address) as client:
        await client.send({"message": "hello"})
        delta = await client.until("delta")
        await client.send({"type": "stop", "session_id": delta["session_id"]})
        assert (await client.until("final"))["status"] == "stopped"
    await eventually(lambda: provider.cut == 1)
