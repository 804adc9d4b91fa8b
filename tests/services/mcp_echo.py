"""Starts mcp_echo_server as a process of its own: over HTTP for all who know its port, over stdio for each session."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PROGRAM = Path(__file__).parent / "mcp_echo_server.py"
_END_S = 10


class EchoServer:
    """A server over HTTP on a loopback port, the same one each time it starts."""

    def __init__(self, transport: str, *options: str) -> None:
        self.transport = transport
        self._options = options
        self._port = "0"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and return once it listens."""
        command = [sys.executable, str(_PROGRAM), self.transport, self._port, *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        self._port = self._process.stdout.readline().strip()
        assert self._port, "the server has not started"

    def stop(self) -> None:
        """Kill it; one that has crashed is gone already."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate(timeout=_END_S)

    def settings(self, **settings: Any) -> dict[str, Any]:
        """What stands in the settings of whoever connects to it."""
        path = "sse" if self.transport == "sse" else "mcp"
        return {"transport": self.transport, "url": f"http://127.0.0.1:{self._port}/{path}", **settings}


@contextmanager
def echo_server(transport: str = "streamable_http", *options: str) -> Iterator[EchoServer]:
    server = EchoServer(transport, *options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def echo_over_stdio(**settings: Any) -> dict[str, Any]:
    """The settings of a server that each session starts for itself."""
    return {"transport": "stdio", "command": sys.executable, "args": [str(_PROGRAM), "stdio"], **settings}
