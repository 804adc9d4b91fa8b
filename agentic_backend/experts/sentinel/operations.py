"""The settings of the built-in MCP server `operations`, which agents may use without configuration."""

import sys

from agentic_backend.config.topics.mcp_servers import McpServerSettings

OPERATIONS = "operations"

_PROGRAM = "agentic_backend.experts.sentinel.operations_server"


def operations_settings(internal_url: str | None) -> McpServerSettings:
    """The settings of the MCP server that reads the internal listener at this URL; None if there is no listener.

    It keeps nothing of those who ask, so one process serves all of them.
    """
    return McpServerSettings(
        transport="stdio", command=sys.executable, args=("-m", _PROGRAM, "--internal", internal_url or ""), shared=True
    )
