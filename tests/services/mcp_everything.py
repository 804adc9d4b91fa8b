"""MCP's reference server, `@modelcontextprotocol/server-everything`, from npm, at the version of its lock file."""

import shutil
from pathlib import Path

from services.cache import cached, run, version_of
from support.services import require

_SOURCE = Path(__file__).parent / "mcp_everything"
_SOURCES = [_SOURCE / name for name in ("package.json", "package-lock.json")]
_PROGRAM = Path("node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
_INSTALL = ("npm", "ci", "--omit-lockfile-registry-resolved=true", "--ignore-scripts", "--no-audit", "--no-fund")
_INSTALL_S = 300


def everything_program() -> str:
    """The server's program, to be run by `node`. Skips or fails the test if it is missing (see `require`)."""
    available = shutil.which("node") is not None and shutil.which("npm") is not None
    require("MCP's reference server", available, "there is no `node` and `npm`")
    return str(cached("mcp-everything", version_of(*_SOURCES), _install) / _PROGRAM)


def _install(directory: Path) -> None:
    for source in _SOURCES:
        shutil.copy(source, directory)
    failure = run(_INSTALL, _INSTALL_S, cwd=directory)
    require("MCP's reference server", failure is None, f"npm can't fetch it: {failure}")
