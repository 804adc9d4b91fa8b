"""Stands between the server and MongoDB: counts the commands, and delays what goes through.

Run as `python mongo_proxy.py PORT DELAY_MS`, with MongoDB's port on loopback and the delay of a round trip. Prints its
address and that of the counts: JSON, by command and collection. Serves until it is terminated.
"""

import asyncio
import json
import struct
import sys
from collections import Counter, deque
from functools import partial

import uvloop

_HEADER = struct.Struct("<iiii")
_MESSAGE = 2013
# After the header: the flags, the kind of the first section, the length of its document, the type of its first field.
_NAME_AT = _HEADER.size + 4 + 1 + 4 + 1
_TEXT = 2


class Commands:
    """Counts the commands of one connection as their bytes come in."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._received = b""

    def take(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _HEADER.size:
            length, _, _, opcode = _HEADER.unpack_from(self._received)
            if len(self._received) < length:
                return
            if opcode == _MESSAGE:
                self._counts[self._name(self._received[:length])] += 1
            self._received = self._received[length:]

    def _name(self, message: bytes) -> str:
        """The command and, if it is of one, the collection."""
        name, _, value = message[_NAME_AT:].partition(b"\0")
        is_text = message[_NAME_AT - 1] == _TEXT
        collection = value[4:].partition(b"\0")[0] if is_text else b""
        return f"{name.decode()} {collection.decode()}".strip()


class Way(asyncio.Protocol):
    """One end of a connection: passes what it reads on to the other end, `delay_s` later."""

    def __init__(self, delay_s: float, commands: Commands | None = None) -> None:
        self.other: Way | None = None
        self.transport: asyncio.Transport | None = None
        self._delay_s = delay_s
        self._commands = commands
        self._waiting: deque[bytes] = deque()
        """What the other end is to be sent, in order; each has a timer, or waits for the other end to be connected."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._commands is not None:
            self._commands.take(data)
        self._waiting.append(data)
        if self.other is not None:
            self._pass_later()

    def join(self, other: "Way") -> None:
        self.other = other
        for _ in list(self._waiting):
            self._pass_later()

    def _pass_later(self) -> None:
        asyncio.get_running_loop().call_later(self._delay_s, self._pass_on)

    def _pass_on(self) -> None:
        assert self.other is not None and self.other.transport is not None
        self.other.transport.write(self._waiting.popleft())


class Accepted(Way):
    """The end to the client, which connects the other one."""

    def __init__(self, port: int, delay_s: float, counts: Counter[str]) -> None:
        super().__init__(delay_s, Commands(counts))
        self._port = port

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(10):
            _, other = await loop.create_connection(lambda: Way(self._delay_s), "127.0.0.1", self._port)
        other.join(self)
        self.join(other)


async def tell(counts: Counter[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(10):
        await reader.readuntil(b"\r\n\r\n")
    told = json.dumps(counts).encode()
    writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(told), told))
    writer.close()


async def serve(port: int, round_trip_s: float) -> None:
    counts: Counter[str] = Counter()
    accept = partial(Accepted, port, round_trip_s / 2, counts)
    proxy = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
    telling = await asyncio.start_server(partial(tell, counts), "127.0.0.1", 0)
    public, internal = (each.sockets[0].getsockname()[1] for each in (proxy, telling))
    print(
        f"MongoDB at http://127.0.0.1:{public}, metrics and health at http://127.0.0.1:{internal}",
        flush=True,
    )
    await proxy.serve_forever()


if __name__ == "__main__":
    mongo_port, delay_ms = sys.argv[1:]
    uvloop.run(serve(int(mongo_port), float(delay_ms) / 1000))
