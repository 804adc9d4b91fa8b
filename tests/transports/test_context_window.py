"""A model's context window over every door: a long conversation goes on, and a message without room is refused."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.chat_client import chat, check_exchange, final_text
from support.rest_client import messages_of, rest, sse_events
from support.running_server import RunningServer, running_server

Event = dict[str, Any]
# The assistant's prompt, tools and their results fit beside half of it.
WINDOW = 2_000
TOO_LONG = "word " * WINDOW


@pytest.fixture
async def server(store_url: str, tmp_path: Path) -> AsyncIterator[RunningServer]:
    model = {"model": "offline", "context_tokens": WINDOW, "options": {"words_per_second": 0}}
    settings = {"store": {"url": store_url}, "models": {"default": model}}
    async with running_server(tmp_path, settings=settings) as server:
        yield server


def check_refused(events: list[Event]) -> None:
    check_exchange(events)
    [error] = [event for event in events if event["type"] == "error"]
    assert (error["code"], error["whose"], error["retryable"]) == ("context_too_long", "client", False)
    assert (events[-1]["type"], events[-1]["status"]) == ("final", "error")
    assert not events[-1]["usage"], "no model is called"


async def posted(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> list[Event]:
    async with http.stream("POST", path, json=body) as response:
        assert response.status_code == 200
        return [event async for event in sse_events(response) if event["type"] != "session"]


async def test_a_message_without_room_is_refused_over_every_door(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        events = await client.ask(TOO_LONG)
        check_refused(events)
        check_refused(await client.ask(TOO_LONG, mode="query"))
        session_id = events[-1]["session"]["id"]
        check_refused(await posted(http, f"/sessions/{session_id}/messages", {"content": TOO_LONG}))
        check_refused(await posted(http, "/query", {"content": TOO_LONG}))
        assert final_text(await client.ask("repeat after me: hello", session_id=session_id)) == "hello"


async def test_a_conversation_does_not_end_for_its_length(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        session_id = None
        for number in range(12):
            events = await client.ask(f"repeat after me: {number} {'word ' * 300}", session_id=session_id)
            check_exchange(events)
            assert events[-1]["status"] == "ok", events[-2:]
            session_id = events[-1]["session"]["id"]
        assert len(await messages_of(http, str(session_id))) == 24
