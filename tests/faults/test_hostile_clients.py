"""Clients that don't read, send rubbish or a bomb: nobody else notices, and the server's memory stays as it is."""

import asyncio
import json
import random
import socket
import statistics
import struct
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from faults.sizes import SIZES
from support.chat_client import PATH, ChatClient, chat
from support.figures import figure
from support.rest_client import metric_at
from support.server_process import ServerProcess, serving
from websockets.exceptions import ConnectionClosed

MIB = 1024 * 1024
GIB = 1024 * MIB
GONE_WITHIN_S = 60
BEGINNINGS = ['{"type":', '{"message":', '{"type":"follow","session_id":', '{"type":"stop",', "[", '"', "", "\x00", "{"]
VALUES = [
    '"ping"',
    "null",
    "1e999",
    "-1",
    '"\\ud800"',
    "[]",
    "{}",
    '{"a":' * 50,
    '"x"' * 9,
    "true",
    '"x","after_seq":-1',
]


def resident(server: ServerProcess) -> int:
    """The server's memory, in bytes."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    [kib] = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(kib) * 1024


async def answers(server: ServerProcess) -> None:
    async with chat(server.address) as client:
        assert (await client.ask("words 3 0"))[-1]["status"] == "ok"


@asynccontextmanager
async def raw_socket(
    server: ServerProcess, *extra_headers: str
) -> AsyncIterator[tuple[str, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A WebSocket without a library: the response's head, and the streams behind it."""
    address = urlsplit(server.address)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = [f"GET {PATH} HTTP/1.1", f"Host: {address.netloc}", "Connection: Upgrade", "Upgrade: websocket"]
    head += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", *extra_headers]
    try:
        writer.write("\r\n".join([*head, "Sec-WebSocket-Protocol: chat.v2", "", ""]).encode())
        async with asyncio.timeout(10):
            yield (await reader.readuntil(b"\r\n\r\n")).decode(), reader, writer
    finally:
        writer.transport.abort()


async def test_a_million_frames_of_rubbish_cost_nothing(directory: Path) -> None:
    """Short form: fewer."""
    async with serving(cwd=directory) as server:
        rubbish = random.Random(6)
        await spray(server, rubbish, 4_000)
        before = resident(server)
        began = time.monotonic()
        await spray(server, rubbish, SIZES.frames)
        took_s, more = time.monotonic() - began, resident(server) - before
        await answers(server)
        assert await server.stop() == 0
        assert "Traceback" not in server.stderr
    figure(f"{SIZES.frames:,} frames in {took_s:.0f} s: {more / MIB:+.1f} MiB, no crash")
    assert more <= 24 * MIB + 32 * SIZES.frames


async def spray(server: ServerProcess, rubbish: random.Random, frames: int) -> None:
    """Frames of rubbish over eight sockets, each opened again where it is closed; all that is answered is read."""

    async def one(seed: int) -> None:
        mine, sent = random.Random(seed), 0
        while sent < frames // 8:
            async with chat(server.address) as client:
                with suppress(ConnectionClosed):
                    while sent < frames // 8:
                        for _ in range(50):
                            await client.socket.send(frame_of(mine))
                            sent += 1
                        await drained(client)

    await asyncio.gather(*(one(rubbish.randrange(2**32)) for _ in range(8)))


def frame_of(rubbish: random.Random) -> str | bytes:
    if rubbish.random() < 0.2:
        return rubbish.randbytes(rubbish.randrange(200))
    return rubbish.choice(BEGINNINGS) + rubbish.choice(VALUES) + rubbish.choice(["}", "", ",}", "]}"])


async def drained(client: ChatClient) -> None:
    """Until the server has answered everything that was sent."""
    await client.socket.send('{"type":"ping"}')
    while json.loads(await client.socket.recv())["type"] != "pong":
        pass


async def test_a_deflate_bomb_is_a_protocol_error(directory: Path) -> None:
    async with serving(cwd=directory) as server:
        await answers(server)
        before = resident(server)
        offered = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"
        # Before the socket is open: it takes seconds.
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
        bomb = b"".join(deflate.compress(bytes(MIB)) for _ in range(GIB // MIB)) + deflate.flush(zlib.Z_SYNC_FLUSH)
        async with raw_socket(server, offered) as (head, reader, writer):
            assert " 101 " in head and "sec-websocket-extensions" not in head.lower()
            # A text frame whose first reserved bit says that it is compressed; the mask is zero.
            writer.write(b"\xc1\xff" + struct.pack("!Q", len(bomb)) + bytes(4) + bomb)
            answer = await reader.read(4)
            assert answer[0] == 0x88 and struct.unpack("!H", answer[2:4]) == (1002,)
        more = resident(server) - before
        await answers(server)
    figure(f"1 GiB deflated to {len(bomb) / MIB:.1f} MiB: 1002, {more / MIB:+.1f} MiB")
    assert more <= GIB // 20


async def test_one_stalled_client_among_many_holds_nobody_up(directory: Path) -> None:
    async with serving(cwd=directory) as server:
        await talk(server)
        alone, beside, gone_after_s = [], [], []
        for _ in range(SIZES.rounds):
            alone.append(await talk(server))
            async with stalled(server):
                stalled_at = time.monotonic()
                beside.append(await talk(server))
                async with asyncio.timeout(GONE_WITHIN_S):
                    while await metric_at(server.internal, "chat_open_sockets"):
                        await asyncio.sleep(0.1)
                gone_after_s.append(time.monotonic() - stalled_at)
    ratio = statistics.median(beside) / statistics.median(alone)
    figure(
        f"p95 of {SIZES.clients} clients: {ratio:.2f} of what it is without, in {SIZES.rounds} rounds; "
        f"gone after {max(gone_after_s):.1f} s"
    )
    assert ratio < SIZES.stalled_ratio


async def talk(server: ServerProcess) -> float:
    """The p95 of how long an answer takes, in seconds, while all clients are answered at the same time."""

    async def one() -> float:
        async with chat(server.address) as client:
            began = time.monotonic()
            assert (await client.ask("words 40 40"))[-1]["status"] == "ok"
            return time.monotonic() - began

    took_s = await asyncio.gather(*(one() for _ in range(SIZES.clients)))
    return statistics.quantiles(took_s, n=20)[-1]


@asynccontextmanager
async def stalled(server: ServerProcess) -> AsyncIterator[None]:
    """A client that is sent megabytes, for its long questions are shown to it, and reads nothing of them."""
    question = "words 1 0" + " " * 200_000
    address = urlsplit(server.address)
    with socket.socket() as narrow:
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(narrow, (address.hostname, address.port))
        async with chat(server.address, sock=narrow, max_queue=1, close_timeout=0.1) as client:
            for _ in range(MIB * 8 // len(question)):
                await client.send({"message": question})
            yield
