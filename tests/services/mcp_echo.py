"""Starts mcp_echo_server as a separate process: over HTTP for all clients of its port, over stdio for each session."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from services.program import Program

_PROGRAM = Path(__file__).parent / "mcp_echo_server.py"


class EchoServer(Program):
    """A server over HTTP."""

    def __init__(self, transport: str, *options: str) -> None:
        super().__init__(sys.executable, str(_PROGRAM), transport, *options)
        self.transport = transport

    def settings(self, **settings: Any) -> dict[str, Any]:
        """The settings for connecting to it."""
        path = "sse" if self.transport == "sse" else "mcp"
        return {"transport": self.transport, "url": f"http://127.0.0.1:{self.port}/{path}", **settings}


Echoes = Callable[..., EchoServer]


@contextmanager
def echo_server(transport: str = "streamable_http", *options: str) -> Iterator[EchoServer]:
    server = EchoServer(transport, *options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def echo_over_stdio(**settings: Any) -> dict[str, Any]:
    """The settings of a server that every session starts anew."""
    return {"transport": "stdio", "command": sys.executable, "args": [str(_PROGRAM), "stdio"], **settings}
