"""What an MCP server of our own writes to its standard error, as debug lines of the log.

Whoever starts the process enters `stderr_log` around it; the pipe is read by the event loop, never by a thread.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import TextIO

log = logging.getLogger(__name__)

_LONGEST_LINE = 1000
_SHORTEST_SECRET = 6


class _Lines(asyncio.Protocol):
    """Logs whole lines, cut to a bound; what was left out of a long one is dropped as it comes."""

    def __init__(self, server_id: str, secrets: Collection[str]) -> None:
        self._server_id = server_id
        self._secrets = [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        if not log.isEnabledFor(logging.DEBUG):
            return
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._log(line)
        self._rest = rest[:_LONGEST_LINE]

    def connection_lost(self, _: Exception | None) -> None:
        self._log(self._rest)

    def _log(self, line: bytes) -> None:
        text = line[:_LONGEST_LINE].decode(errors="replace").rstrip()
        for secret in self._secrets:
            text = text.replace(secret, "[redacted]")
        if text:
            log.debug("MCP server says: %s", text, extra={"mcp_server": self._server_id})


@asynccontextmanager
async def stderr_log(server_id: str, secrets: Collection[str]) -> AsyncIterator[TextIO]:
    """A file to start a process with as its standard error; none of the `secrets` reaches the log."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as sink:
        source = os.fdopen(reading, "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: _Lines(server_id, secrets), source)
        try:
            yield sink
        finally:
            transport.close()
