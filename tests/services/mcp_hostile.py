"""Starts mcp_hostile_server: over HTTP as one process for all clients of its port, over stdio for each session."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PROGRAM = str(Path(__file__).parent / "mcp_hostile_server.py")
_END_S = 30

TRANSPORTS = ("stdio", "streamable_http", "sse")


@contextmanager
def hostile_server(transport: str, listing: str = "", **settings: Any) -> Iterator[dict[str, Any]]:
    """The settings for connecting to it."""
    if transport == "stdio":
        yield {"transport": "stdio", "command": sys.executable, "args": [_PROGRAM, "stdio", listing], **settings}
        return
    command = [sys.executable, _PROGRAM, transport, listing]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        yield {"transport": transport, "url": f"http://127.0.0.1:{port}/mcp", **settings}
    finally:
        process.kill()
        process.communicate(timeout=_END_S)
