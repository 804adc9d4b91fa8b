"""A client of the session stream: httpx-sse reads the streams, and what a stream must always be is checked."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
from httpx_sse import EventSource, aconnect_sse

from support.chat_client import PATIENCE_S, Event
from support.rest_client import plain_http
from support.running_server import RunningServer

ENDS = ("done", "error")


@asynccontextmanager
async def tool_client(server: RunningServer | str, token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client whose paths start at the root of the server, or of the address."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    address = server if isinstance(server, str) else server.address
    async with plain_http(base_url=address, headers=headers) as client:
        yield client


async def opened(http: httpx.AsyncClient, tool_id: str = "assistant", **fields: Any) -> str:
    response = await http.post("/sessions", json={"toolId": tool_id, **fields})
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


@asynccontextmanager
async def sending(
    http: httpx.AsyncClient, session_id: str, content: str, **fields: Any
) -> AsyncIterator[AsyncIterator[Event]]:
    """Send a message; yields the events of its stream."""
    body = {"content": content, **fields}
    async with aconnect_sse(http, "POST", f"/sessions/{session_id}/messages", json=body) as source:
        assert source.response.status_code == 200, await source.response.aread()
        assert source.response.headers["cache-control"] == "no-store"
        async with asyncio.timeout(PATIENCE_S):
            yield _events(source)


async def _events(source: EventSource) -> AsyncIterator[Event]:
    async for sent in source.aiter_sse():
        event: Event = sent.json()
        assert (sent.event, sent.id) == (event["type"], "")
        yield event


async def sent(http: httpx.AsyncClient, session_id: str, content: str, **fields: Any) -> list[Event]:
    """All events of a message's stream."""
    async with sending(http, session_id, content, **fields) as stream:
        events = [event async for event in stream]
    check_stream(events)
    return events


def check_stream(events: Sequence[Event]) -> None:
    """Exactly one event ends the stream, each result follows its call, and chunks have text."""
    assert [event["type"] for event in events if event["type"] in ENDS] == [events[-1]["type"]]
    called: list[str] = []
    for event in events:
        if event["type"] == "tool_call":
            called.append(event["toolCall"]["id"])
        if event["type"] == "tool_result":
            assert event["toolResult"]["id"] in called
        if event["type"] == "chunk":
            assert event["content"] or event["replaces"]
    assert len(called) == len(set(called))


def answer_in(events: Sequence[Event]) -> str:
    """The text of the answer, put together from the chunks."""
    text = ""
    for event in events:
        if event["type"] == "chunk":
            text = event["content"] if event.get("replaces") else text + event["content"]
    return text


async def history(http: httpx.AsyncClient, session_id: str, **query: Any) -> list[dict[str, Any]]:
    response = await http.get(f"/sessions/{session_id}/messages", params=query)
    assert response.status_code == 200, response.text
    messages: list[dict[str, Any]] = response.json()["messages"]
    return messages


async def conversation(http: httpx.AsyncClient, session_id: str) -> list[tuple[str, str]]:
    """The roles and texts of what was asked and answered."""
    messages = await history(http, session_id)
    return [(one["role"], one["content"]) for one in messages if one["channel"] == "final"]
