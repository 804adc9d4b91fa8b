"""What it costs to build an agent that has the tools of one MCP server over HTTP, which runs already."""

import asyncio
import time

from external_services import echo_server
from figures import median
from support.mcp_agents import tool_user

AGENTS = 20


async def _build_times(server: dict[str, object]) -> list[float]:
    times = []
    for _ in range(AGENTS):
        agent = tool_user({"echo": server})
        began = time.perf_counter()
        await agent.async_init()
        times.append((time.perf_counter() - began) * 1000)
        await agent.aclose()
    return times


def measure() -> dict[str, float]:
    """Times in ms: of the first agent of the process, and the median of those that follow."""
    with echo_server("streamable_http", "--open") as server:
        first, *others = asyncio.run(_build_times(server.settings()))
    return {"first": first, "others": median(others)}


if __name__ == "__main__":
    print(measure())
