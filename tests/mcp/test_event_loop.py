"""Sessions open, work, are lost and close without a blocking call in the event loop."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from support.mcp_agents import built, call, told, tool_user


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
