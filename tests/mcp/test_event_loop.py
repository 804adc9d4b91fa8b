"""Sessions open, work, are lost and close without a blocking call in the event loop, and long answers are searched
beside it.
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from support.mcp_agents import built, call, told, tool_user

from agentic_backend.mcp.credentials import Credentials
from agentic_backend.mcp.framing import Capped
from agentic_backend.mcp.inbound import Inbound


@pytest.fixture(autouse=True)
def no_blocking_calls() -> Iterator[None]:
    with blockbuster_ctx():
        yield


async def test_nothing_blocks(echo_settings: dict[str, Any]) -> None:
    async with built(tool_user({"echo": {**echo_settings, "tool_timeout_s": 1}}, token="dev:ann")) as hasty:
        await call(hasty, "hang")
    async with built(tool_user({"echo": echo_settings}, token="dev:ann")) as agent:
        assert await told(agent, "echo", text="hello") == "hello"
        await call(agent, "crash")
        await asyncio.sleep(0.1)


class WhereSearched(Credentials):
    """Notes in which threads it looks for credentials."""

    def __init__(self) -> None:
        super().__init__(["quokkaberry"])
        self.threads: set[threading.Thread] = set()

    def redacted(self, value: Any) -> bytes:
        self.threads.add(threading.current_thread())
        return super().redacted(value)

    def redacted_text(self, text: str) -> str:
        self.threads.add(threading.current_thread())
        return super().redacted_text(text)


def text_of(text: str) -> dict[str, Any]:
    return {"result": {"content": [{"type": "text", "text": text}]}}


def failure_of(text: str) -> dict[str, Any]:
    return {"error": {"code": 1, "message": text}}


def tools_of(text: str) -> dict[str, Any]:
    return {"result": {"tools": [{"name": text, "inputSchema": {"type": "object"}}]}}


def request_of(text: str) -> dict[str, Any]:
    return {"method": "ping", "params": {"text": text}}


@pytest.mark.parametrize("make", [text_of, failure_of, tools_of, request_of])
async def test_a_long_answer_is_searched_in_a_thread_and_a_short_one_at_once(make: Any) -> None:
    escaped, here = "\\u0071", {threading.current_thread()}
    for times, is_here in ((10, True), (2_000, False)):
        credentials, answer = WhereSearched(), Capped()
        answer.add(json.dumps({"jsonrpc": "2.0", "id": 1, **make(escaped * times)}).encode())
        inbound = Inbound("raw", credentials)
        with inbound.awaiting(1):
            assert await inbound.read(answer) is not None
        assert credentials.threads and (credentials.threads == here) == is_here
        assert is_here or credentials.threads.isdisjoint(here)
