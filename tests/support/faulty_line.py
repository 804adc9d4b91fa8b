"""A TCP relay to a neighbour of the server, which a test makes refuse, swallow or delay everything for a while."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeVar

from support.tcp_line import End, TcpLine

_CHUNK = 65_536
Line = TypeVar("Line", bound="FaultyLine")


class FaultyLine(TcpLine):
    """Owned by its context; each fault lasts as long as a context of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._is_black_hole = False
        self._late_s = 0.0
        self._listener: asyncio.Server | None = None
        self._tls: ssl.SSLContext | None = None

    async def open(self) -> None:
        """Listen, on the port of the time before if there was one."""
        self._listener = await asyncio.start_server(self.accept, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Refuse connections, and break those that are open."""
        assert self._listener is not None
        self._listener.close()
        await self.cut()

    async def present(self, certificate: Path) -> None:
        """Speak TLS with its clients from now on, with this certificate."""
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate)
        await self.close()
        await self.open()

    @asynccontextmanager
    async def refused(self) -> AsyncIterator[None]:
        await self.close()
        try:
            yield
        finally:
            await self.open()

    @asynccontextmanager
    async def black_holed(self) -> AsyncIterator[None]:
        """Connections open and stay open; nothing that is sent arrives."""
        self._is_black_hole = True
        try:
            yield
        finally:
            self._is_black_hole = False
            # What was swallowed is missing in them.
            await self.cut()

    @asynccontextmanager
    async def slow(self, late_s: float) -> AsyncIterator[None]:
        """Every answer comes so much later."""
        self._late_s = late_s
        try:
            yield
        finally:
            self._late_s = 0.0

    async def pass_on(self, client: End, server: End, swallows: Callable[[], bool]) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pump(client[0], server[1], lambda: 0.0))
            tasks.create_task(self._pump(server[0], client[1], lambda: self._late_s))

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late_s: Callable[[], float]
    ) -> None:
        while data := await reader.read(_CHUNK):
            if not self._is_black_hole:
                await asyncio.sleep(late_s())
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


@asynccontextmanager
async def opened(line: Line, target: int) -> AsyncIterator[Line]:
    """The line, to this loopback port."""
    line.target = target
    await line.open()
    try:
        yield line
    finally:
        await line.close()


def faulty_line(target: int) -> AbstractAsyncContextManager[FaultyLine]:
    return opened(FaultyLine(), target)
