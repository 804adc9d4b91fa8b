"""`make bench-idle`: the memory of idle sockets of one process, which the server pings, and what a bare server needs.

Run as `python idle_sockets.py [COUNT]`. Both ends of each socket are on loopback, the clients in this process.
"""

import asyncio
import os
import platform
import resource
import sys
import tempfile
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import load_client
import results
import servers
from servers import Server

COUNT = 10_000
# uvicorn pings each socket after 20 s, and again 20 s after its pong.
IDLE_S = 50
TITLE = "Idle sockets"
SOCKET_KIB, ALL_MIB = 20, 400
_AT_ONCE = 100
# So many sockets have the same address; each address has some 28,000 ports.
_OF_AN_ADDRESS = 20_000
_OPENING_S = 20
_PING, _PONG = 0x89, 0x8A
_UPGRADE = (
    f"GET {load_client.PATH} HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Protocol: chat.v2\r\nUser-Agent: bench\r\n\r\n"
)


class Client(asyncio.Protocol):
    """A socket that answers pings, and does nothing else."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._received = b""
        self.opened: asyncio.Future[None] | None = asyncio.get_running_loop().create_future()
        self.pings = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        transport.write((_UPGRADE % self._host).encode())

    def connection_lost(self, exc: Exception | None) -> None:
        if self.opened is not None and not self.opened.done():
            self.opened.set_exception(ConnectionError("the server refused a socket"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self.opened is not None:
            head, end, self._received = self._received.partition(b"\r\n\r\n")
            if not end:
                self._received = head
                return
            assert head.startswith(b"HTTP/1.1 101"), head
            self.opened.set_result(None)
        while len(self._received) >= 2 and len(self._received) >= (size := 2 + self._received[1]):
            frame, self._received = self._received[:size], self._received[size:]
            if frame[0] == _PING:
                self.pings += 1
                # Masked with zeros, the payload stays as it is.
                self.transport.write(bytes((_PONG, 0x80 | frame[1], 0, 0, 0, 0)) + frame[2:])


@dataclass(frozen=True)
class Idle:
    """What `count` sockets took: memory as soon as they were open and after they had been pinged."""

    count: int
    before_kib: int
    opened_kib: int
    after_kib: int
    opening_cpu_s: float
    idle_cpu_s: float
    pings: int

    @property
    def socket_kib(self) -> float:
        return (self.after_kib - self.before_kib) / self.count


async def open_sockets(server: Server, count: int) -> list[Client]:
    """So many open sockets, _AT_ONCE at a time."""
    address, loop = urlsplit(server.address), asyncio.get_running_loop()

    async def one(number: int) -> Client:
        local = (f"127.0.0.{number // _OF_AN_ADDRESS + 1}", 0)
        connecting = loop.create_connection(
            lambda: Client(address.netloc), address.hostname, address.port, local_addr=local
        )
        async with asyncio.timeout(_OPENING_S):
            _, client = await connecting
            assert client.opened is not None
            await client.opened
        client.opened = None
        return client

    clients: list[Client] = []
    for first in range(0, count, _AT_ONCE):
        clients += await asyncio.gather(*(one(number) for number in range(first, min(first + _AT_ONCE, count))))
    return clients


async def measure(server: Server, count: int, idle_s: float) -> Idle:
    # What the first sockets load stays loaded.
    for client in await open_sockets(server, _AT_ONCE):
        client.transport.abort()
    await asyncio.sleep(1)
    before, cpu = server.memory_kib(), server.cpu_s()
    clients = await open_sockets(server, count)
    opened, opening_cpu, cpu = server.memory_kib(), server.cpu_s() - cpu, server.cpu_s()
    await asyncio.sleep(idle_s)
    idle_cpu, after = server.cpu_s() - cpu, server.memory_kib()
    assert not any(client.transport.is_closing() for client in clients), "the server closed an idle socket"
    for client in clients:
        client.transport.abort()
    return Idle(count, before, opened, after, opening_cpu, idle_cpu, sum(client.pings for client in clients))


def report(found: dict[str, Idle], count: int, load: float) -> str:
    lines = "\n".join(
        f"| {name} | {of.socket_kib:.1f} | {of.after_kib / 1024:.0f} | {of.before_kib / 1024:.0f} "
        f"| {of.opening_cpu_s / of.count * 1000:.2f} | {of.idle_cpu_s / IDLE_S * 100:.1f} | {of.pings:,} |"
        for name, of in found.items()
    )
    product = found["product"]
    targets = "\n".join(
        f"| {name} | ≤ {limit} | {got:.1f} | {'yes' if got <= limit else 'no'} |"
        for name, limit, got in (
            ("an idle socket, KiB", SOCKET_KIB, product.socket_kib),
            (f"a process with {count:,} idle sockets, MiB", ALL_MIB, product.after_kib / 1024),
        )
    )
    return f"""`make bench-idle` on {datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, with a load of \
{load:.1f} when this began: {count:,} sockets of `chat.v2` in one process with its default settings, resident memory \
after {IDLE_S} s, in which uvicorn has pinged each socket. *Bare* is uvicorn (`websockets-sansio`) and Starlette alone.

| server | KiB/socket | MiB with all | MiB without | CPU ms to open one | % of a core while idle | pings |
|---|---|---|---|---|---|---|
{lines}

| target | wanted | got | reached |
|---|---|---|---|
{targets}
"""


def main(count: int) -> None:
    # Both ends of each socket are files, one in each process.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    load = os.getloadavg()[0]
    found = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        started: dict[str, AbstractContextManager[Server]] = {
            "product": servers.product(directory / "product"),
            "bare": servers.bare(directory),
        }
        for side, starting in started.items():
            with starting as server:
                found[side] = asyncio.run(measure(server, count, IDLE_S))
                print(side, found[side], flush=True)
    section = report(found, count, load)
    print(section)
    if count == COUNT:
        results.put(section, TITLE)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else COUNT)
