"""MCP's reference server, `@modelcontextprotocol/server-everything`, from npm, at the version that its lock file pins.

It is fetched once per machine, into a cache outside of the tree.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from support.services import require

_SOURCE = Path(__file__).parent / "mcp_everything"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "agentic-backend", "mcp-everything")
_PROGRAM = Path("node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
_INSTALL = ("npm", "ci", "--omit-lockfile-registry-resolved=true", "--ignore-scripts", "--no-audit", "--no-fund")
_INSTALL_S = 300


def everything_program() -> str:
    """The server's program, to be run by `node`. Skips the test where it can't be had, or fails it (see `require`)."""
    available = shutil.which("node") is not None and shutil.which("npm") is not None
    require("MCP's reference server", available, "there is no `node` and `npm`")
    sources = [_SOURCE / name for name in ("package.json", "package-lock.json")]
    version = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    directory = _CACHE / version
    if not (directory / _PROGRAM).is_file():
        # Under a name of its own first: another run may fetch it at the same time.
        fetched = directory.with_name(f"{directory.name}-{os.getpid()}")
        fetched.mkdir(parents=True)
        for source in sources:
            shutil.copy(source, fetched)
        install = subprocess.run(_INSTALL, cwd=fetched, capture_output=True, text=True, timeout=_INSTALL_S)
        require("MCP's reference server", install.returncode == 0, f"npm can't fetch it: {install.stderr[-300:]}")
        try:
            fetched.rename(directory)
        except OSError:
            shutil.rmtree(fetched)
    return str(directory / _PROGRAM)
