"""HTTP for tests: a client of any address, one of a user's REST calls, and readers of what they get."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx

from support.chat_client import PATIENCE_S, Event

if TYPE_CHECKING:
    # Processes beside a server use this module, and would import all of the product: seconds.
    from support.running_server import RunningServer

PREFIX = "/agentic/v1"


def plain_http(**options: Any) -> httpx.AsyncClient:
    """An HTTP client with a test's patience, and these options.

    There is no TLS in the tests, and loading the certificates of all authorities takes longer than most of them.
    """
    return httpx.AsyncClient(**{"timeout": PATIENCE_S, "verify": False, **options})


async def metric_at(internal: str | None, name: str) -> float:
    """The value of a metric, whose name has all its labels; with labels it may be missing until it counts."""
    async with plain_http() as http:
        exposition = (await http.get(f"{internal}/metrics")).text
    shown = [line.rpartition(" ") for line in exposition.splitlines()]
    values = [float(value) for metric, _, value in shown if metric == name]
    assert len(values) == 1 or (not values and "{" in name), f"{name}: {values}"
    return sum(values)


@asynccontextmanager
async def rest(server: RunningServer, token: str | None = None, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client whose paths start after `/agentic/v1`."""
    authorization = {"Authorization": f"Bearer {token}"} if token else {}
    async with plain_http(base_url=server.address + PREFIX, headers=authorization | headers) as client:
        yield client


async def messages_of(client: httpx.AsyncClient, session_id: str) -> list[dict[str, Any]]:
    """All messages of a session, read page by page; their ranks must have no gap."""
    messages: list[dict[str, Any]] = []
    while True:
        response = await client.get(f"/sessions/{session_id}/messages", params={"after_rank": len(messages) - 1})
        assert response.status_code == 200, response.text
        page = response.json()
        messages += page["messages"]
        assert [message["rank"] for message in messages] == list(range(len(messages)))
        if len(messages) == page["next_rank"]:
            return messages


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error of a refused request; its body must have the contract's form."""
    body = response.json()
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    assert set(error) - {"retry_after_s", "detail", "approval"} == {
        "code",
        "content",
        "whose",
        "retryable",
        "request_id",
    }
    return error


async def sse_events(response: httpx.Response) -> AsyncIterator[Event]:
    """The events of an SSE stream; `event:` and `id:` must match `data:`."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            assert name in ("event", "id", "data") and name not in fields
            fields[name] = value
        elif fields:
            event: Event = json.loads(fields["data"])
            assert fields["event"] == event["type"]
            place = f"{event['exchange_id']}:{event['seq']}" if "seq" in event else None
            assert fields.get("id") == place
            fields = {}
            yield event
