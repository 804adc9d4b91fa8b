"""How the server's own MCP server, `operations`, is started: agents may use it without any setting."""

import sys

from agentic_backend.settings import McpServerSettings

OPERATIONS = "operations"

_PROGRAM = "agentic_backend.experts.sentinel.operations_server"


def operations_settings(internal_url: str | None) -> McpServerSettings:
    """The settings of the MCP server that reads the internal listener at this URL; None where there is none."""
    return McpServerSettings(
        transport="stdio", command=sys.executable, args=("-m", _PROGRAM, "--internal", internal_url or "")
    )
