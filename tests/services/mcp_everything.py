"""MCP's reference servers, from npm, at the versions of their lock file."""

from pathlib import Path

from services.npm import installed

_SOURCE = Path(__file__).parent / "mcp_everything"
_SERVERS = Path("node_modules", "@modelcontextprotocol")


def everything_program() -> str:
    """That of `server-everything`, to be run by `node`. Skips or fails the test if it is missing (see `require`)."""
    return _program("server-everything")


def app_program(name: str) -> str:
    """That of a server of MCP Apps, `server-debug` or `server-basic-vanillajs`, which take `--stdio`."""
    return _program(name)


def _program(name: str) -> str:
    return str(installed("MCP's reference servers", _SOURCE) / _SERVERS / name / "dist" / "index.js")
