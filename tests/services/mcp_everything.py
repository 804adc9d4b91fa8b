"""MCP's reference server, `@modelcontextprotocol/server-everything`, from npm, at the version of its lock file."""

from pathlib import Path

from services.npm import installed

_SOURCE = Path(__file__).parent / "mcp_everything"
_PROGRAM = Path("node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")


def everything_program() -> str:
    """The server's program, to be run by `node`. Skips or fails the test if it is missing (see `require`)."""
    return str(installed("MCP's reference server", _SOURCE) / _PROGRAM)
