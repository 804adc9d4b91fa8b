"""Faults of an MCP server that an agent takes its tools from."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gameday.fault import Fault
from gameday.site import Site

ASK = ("count | words 3 0", "remote")
AWAY = {"dependency": "mcp:echo"}
PANEL = ("agents.json", "MCP servers")
FELT = "Answers lack what the tool would have told, and the model is told why; agents built now are unavailable."


@asynccontextmanager
async def dead(site: Site) -> AsyncIterator[None]:
    """Killed, and started again afterwards."""
    assert site.mcp is not None
    await asyncio.to_thread(site.mcp.stop)
    try:
        yield
    finally:
        await asyncio.to_thread(site.mcp.start)


@asynccontextmanager
async def frozen(site: Site) -> AsyncIterator[None]:
    assert site.mcp is not None
    await asyncio.to_thread(site.mcp.pause)
    try:
        yield
    finally:
        site.mcp.resume()


@asynccontextmanager
async def hanging(site: Site) -> AsyncIterator[None]:
    """One tool does not come back; the server answers all else."""
    assert site.mcp is not None
    site.mcp.signal(signal.SIGUSR1)
    try:
        yield
    finally:
        site.mcp.signal(signal.SIGUSR2)


MCP_FAULTS = [
    Fault(
        name="MCP server dead, and back again",
        site="called",
        inject=dead,
        alert="McpServerAway",
        labels=AWAY,
        panel=PANEL,
        runbook="MCP server can't be reached",
        log="MCP session lost",
        fields={"mcp_server": "^echo$"},
        felt=FELT,
        ask=ASK,
    ),
    Fault(
        name="MCP server frozen",
        site="called",
        inject=frozen,
        alert="McpServerAway",
        labels=AWAY,
        panel=PANEL,
        runbook="Frozen",
        log="MCP call failed",
        fields={"mcp_server": "^echo$", "tool": "^count$", "reason": "timeout"},
        felt=FELT,
        ask=ASK,
    ),
    Fault(
        name="MCP server hanging in a call",
        site="called",
        inject=hanging,
        alert="ToolsFail",
        labels={"gen_ai_tool_name": "dawdle"},
        sooner={">= 5": ">= 2"},
        panel=("agents.json", "Calls that fail, by tool"),
        runbook="what hangs is behind it",
        log="MCP call failed",
        fields={"mcp_server": "^echo$", "tool": "^dawdle$", "reason": "timeout"},
        felt="Answers wait for `mcp_servers.<name>.tool_timeout_s`, and lack what the tool would have told.",
        ask=("dawdle | words 3 0", "remote"),
    ),
]
