"""A client of chat runs, whose events are parsed by httpx-sse, and the checks that hold for every run."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from httpx_sse import aconnect_sse

from support.chat_client import PATIENCE_S
from support.rest_client import plain_http

Event = dict[str, Any]

CHAT, APPROVAL, RESUME = "/api/chat", "/api/chat/tool-approval", "/api/chat/resume"


@asynccontextmanager
async def run_client(address: str, token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with plain_http(base_url=address, headers=headers, timeout=PATIENCE_S * 2) as client:
        yield client


async def run_events(client: httpx.AsyncClient, body: dict[str, Any]) -> AsyncIterator[Event]:
    """The events of a run that is started; `event:` must match `data:`."""
    async with aconnect_sse(client, "POST", CHAT, json=body) as source:
        if source.response.status_code != 200:
            await source.response.aread()
        assert source.response.status_code == 200, source.response.text
        async for sent in source.aiter_sse():
            event: Event = sent.json()
            assert sent.event == event["type"]
            yield event


async def run(client: httpx.AsyncClient, message: str, **fields: Any) -> list[Event]:
    """All events of a run."""
    events = [event async for event in run_events(client, {"message": message, **fields})]
    check_run(events)
    return events


def check_run(events: list[Event]) -> None:
    """Check what holds for every stream and every list of events."""
    types = [event["type"] for event in events]
    assert types.count("done") == 1 and types[-1] == "done"
    assert types.count("error") <= 1 and types.count("agent_summary") <= 1
    if events[-1]["status"] == "failed":
        assert types[-2] == "error"
    assert len({event["runId"] for event in events if "runId" in event}) == 1


def text_of_run(events: Iterable[Event]) -> str:
    """The answer, put together as a client does."""
    text = ""
    for event in events:
        if event["type"] == "text_delta":
            text = event["text"] if event.get("replaces") else text + event["text"]
    return text


def only(events: Iterable[Event], type_: str) -> list[Event]:
    return [event for event in events if event["type"] == type_]


def run_error(response: httpx.Response) -> Event:
    """The error of a refused call; its body must have the contract's form."""
    body = response.json()
    assert set(body) == {"ok", "error"} and body["ok"] is False
    error: Event = body["error"]
    assert set(error) - {"retryAfterS"} == {"type", "code", "message", "retryable", "requestId"}
    return error


async def post(client: httpx.AsyncClient, path: str, **body: Any) -> dict[str, Any]:
    """The answer of a call that succeeds."""
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    assert answer["ok"] is True
    check_run(answer["events"])
    return answer
