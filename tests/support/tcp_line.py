"""A TCP relay between a client and one server, or several servers in turn, which a test can cut at any time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import urlsplit

_CHUNK = 65_536
_CONNECT_S = 5

Line = TypeVar("Line", bound="TcpLine")
End = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class TcpLine:
    """Listens on `port` and forwards to `target`, a loopback port that is set before the first connection."""

    def __init__(self) -> None:
        self.port = 0
        self.target = 0
        self._held = False
        self._accepted = 0
        self._swallowed = 0
        self._relays: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def accepted(self) -> int:
        """The number of connections so far."""
        return self._accepted

    async def cut(self) -> None:
        """Break all open connections; new ones work."""
        for relay in self._relays:
            relay.cancel()
        if self._relays:
            await asyncio.wait(self._relays)

    async def hold(self) -> None:
        """Break all connections, also new ones until `release`."""
        self._held = True
        await self.cut()

    def release(self) -> None:
        self._held = False

    def swallow(self) -> None:
        """Stop forwarding on the open connections, which stay open; new ones work."""
        self._swallowed = self._accepted

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = asyncio.create_task(self._relay(reader, writer, self._next_target()))
        self._relays.add(relay)
        relay.add_done_callback(self._relays.discard)
        # A task that is cancelled before its first step closes nothing.
        relay.add_done_callback(lambda _: writer.transport.abort())

    def _next_target(self) -> int:
        return self.target

    def _swallows(self) -> Callable[[], bool]:
        """A function that returns whether `swallow` was called after this connection was accepted."""
        self._accepted += 1
        number = self._accepted
        return lambda: number <= self._swallowed

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int) -> None:
        writers, swallows = [writer], self._swallows()
        try:
            if self._held:
                return
            async with asyncio.timeout(_CONNECT_S):
                from_server, to_server = await asyncio.open_connection("127.0.0.1", target)
            writers.append(to_server)
            await self.pass_on((reader, writer), (from_server, to_server), swallows)
        except* OSError:
            pass
        finally:
            for end in writers:
                end.transport.abort()

    async def pass_on(self, client: End, server: End, swallows: Callable[[], bool]) -> None:
        """Forward data in both directions until both ends have closed."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_pump(client[0], server[1], swallows))
            tasks.create_task(_pump(server[0], client[1], swallows))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, swallows: Callable[[], bool]) -> None:
    while data := await reader.read(_CHUNK):
        if not swallows():
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


class RoundRobin(TcpLine):
    """Forwards each connection to the next of `targets`, even if no server listens there."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[int] = []
        self._turn = 0

    def _next_target(self) -> int:
        self._turn += 1
        return self.targets[self._turn % len(self.targets)]


@asynccontextmanager
async def tcp_line() -> AsyncIterator[TcpLine]:
    async with listening(TcpLine()) as line:
        yield line


@asynccontextmanager
async def line_to(address: str) -> AsyncIterator[TcpLine]:
    """A line to the server at this URL."""
    async with tcp_line() as line:
        line.target = urlsplit(address).port or 0
        yield line


@asynccontextmanager
async def round_robin() -> AsyncIterator[RoundRobin]:
    async with listening(RoundRobin()) as line:
        yield line


@asynccontextmanager
async def listening(line: Line) -> AsyncIterator[Line]:
    listener = await asyncio.start_server(line.accept, "127.0.0.1", 0)
    line.port = listener.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        listener.close()
        await line.cut()
