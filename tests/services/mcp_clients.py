"""MCP's client for TypeScript and its inspector, from npm, at the versions of their lock file."""

from pathlib import Path

from services.npm import installed

_SOURCE = Path(__file__).parent / "mcp_clients"
_NAMES = "@modelcontextprotocol"


def mcp_modules() -> Path:
    """The `node_modules` with them. Skips or fails the test if they are missing (see `require`)."""
    return installed("MCP's clients", _SOURCE) / "node_modules"


def inspector_program() -> str:
    """The program that `inspector --cli` runs, to be run by `node`."""
    return str(mcp_modules() / _NAMES / "inspector" / "cli" / "build" / "cli.js")
