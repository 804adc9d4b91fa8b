"""What the other doors send is what their schemas say, and nothing else."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource
from support.approval_agents import ENTRIES, NOTES_VARIABLE, calls
from support.rest_client import PREFIX, plain_http
from support.running_server import running_server
from support.schema_checks import problems, validator

TOOL, FAILURE, THOUGHT = "what is 12*34?", "fail after 20 tokens", "think about what is 12*34?"


@pytest.fixture
async def http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server with agents that ask a person."""
    monkeypatch.setenv(NOTES_VARIABLE, str(tmp_path / "notes"))
    async with running_server(tmp_path, agents=ENTRIES) as server, plain_http(base_url=server.address) as client:
        yield client


async def events(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    async with http.stream("POST", path, json=body) as response:
        return [sent.json() async for sent in EventSource(response).aiter_sse()]


@pytest.mark.parametrize(
    ("content", "types"),
    [
        (TOOL, {"tool_call", "tool_result", "chunk", "done"}),
        (THOUGHT, {"tool_call", "tool_result", "chunk", "done"}),
        (FAILURE, {"chunk", "error"}),
    ],
)
async def test_the_events_of_the_session_stream(http: httpx.AsyncClient, content: str, types: set[str]) -> None:
    session = (await http.post(f"{PREFIX}/sessions", json={"agent_id": "assistant"})).json()
    sent = await events(http, f"/sessions/{session['id']}/messages", {"content": content})
    closed = validator("session_stream/StreamEvent", closed=True)
    assert {event["type"] for event in sent} == types
    assert [problems(closed, event) for event in sent] == [[]] * len(sent)


@pytest.mark.parametrize(
    ("message", "agent_id", "types"),
    [
        (TOOL, "assistant", {"tool_start", "tool_end", "text_delta", "agent_summary", "done"}),
        (FAILURE, "assistant", {"text_delta", "error", "done"}),
        (
            calls(("send_email", {"to": "ann@example.org"})),
            "approving",
            {"tool_start", "tool_approval_requested", "done"},
        ),
    ],
)
async def test_the_events_of_a_chat_run(http: httpx.AsyncClient, message: str, agent_id: str, types: set[str]) -> None:
    sent = await events(http, "/api/chat", {"message": message, "agentId": agent_id})
    closed = validator("chat_runs/RunEvent", closed=True)
    assert {event["type"] for event in sent} >= types
    assert [problems(closed, event) for event in sent] == [[]] * len(sent)
    assert problems(closed, sent[-1] | {"of": "a later version"})
