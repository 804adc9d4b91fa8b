"""A TCP relay between a client and a server, which can be cut at any time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_CHUNK = 65_536
_CONNECT_S = 5


class TcpLine:
    """Listens on `port` and leads to `target`, a port on loopback that is set before anybody connects."""

    def __init__(self) -> None:
        self.port = 0
        self.target = 0
        self._held = False
        self._relays: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def cut(self) -> None:
        """Break all connections that are open; new ones go through."""
        for relay in self._relays:
            relay.cancel()
        if self._relays:
            await asyncio.wait(self._relays)

    async def hold(self) -> None:
        """Break all connections, and new ones too until `release`."""
        self._held = True
        await self.cut()

    def release(self) -> None:
        self._held = False

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = asyncio.create_task(self._relay(reader, writer))
        self._relays.add(relay)
        relay.add_done_callback(self._relays.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            if self._held:
                return
            async with asyncio.timeout(_CONNECT_S):
                from_server, to_server = await asyncio.open_connection("127.0.0.1", self.target)
            writers.append(to_server)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pump(reader, to_server))
                tasks.create_task(_pump(from_server, writer))
        except* OSError:
            pass
        finally:
            for end in writers:
                end.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


@asynccontextmanager
async def tcp_line() -> AsyncIterator[TcpLine]:
    line = TcpLine()
    listener = await asyncio.start_server(line.accept, "127.0.0.1", 0)
    line.port = listener.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        listener.close()
        await line.cut()
