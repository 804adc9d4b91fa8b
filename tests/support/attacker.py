"""Attacker: sends bytes that no library would send, over raw sockets, from a separate process.

`attack` opens several connections, sends `opening` and, after the answer, repeats `flood` at a bounded rate on every
connection. It reads nothing unless told to, and reopens connections that the server drops.
"""

import asyncio
import base64
import json
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

from support.chat_client import PATH

UPGRADE = (
    f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Protocol: chat.v2\r\n\r\n"
).encode()
_MASK = b"\xa5\x5a\x3c\xc3"
_TURNS_PER_S = 50


def frame(opcode: int, payload: bytes = b"", *, final: bool = True) -> bytes:
    """A masked client frame."""
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xff" + size.to_bytes(8, "big")
    mask = (_MASK * (size // 4 + 1))[:size]
    masked = (int.from_bytes(payload) ^ int.from_bytes(mask)).to_bytes(size)
    return bytes([(0x80 if final else 0) | opcode]) + length + _MASK + masked


@dataclass(frozen=True)
class Attack:
    """`flood` is repeated, after `first`, at `bytes_per_s` on each connection."""

    flood: bytes
    opening: bytes = UPGRADE
    first: bytes = b""
    connections: int = 4
    bytes_per_s: int = 1_000_000
    reads: bool = False


@asynccontextmanager
async def attack(address: str, what: Attack) -> AsyncIterator[Counter[str]]:
    """Attack while the context is open; afterwards the counter has `sent` bytes and `opened` connections."""
    told = {
        name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for name, value in asdict(what).items()
    }
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "support.attacker", address],
        cwd=Path(__file__).parent.parent,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    done: Counter[str] = Counter()
    try:
        process.stdin.write(json.dumps(told).encode() + b"\n")
        assert await process.stdout.readline() == b"ready\n"
        yield done
        process.stdin.close()
        done.update(json.loads(await process.stdout.readline()))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _flood(address: str, what: Attack, end: Event, done: Counter[str]) -> None:
    """Attack over one connection at a time."""
    parts = urlsplit(address)
    turn = what.flood * max(1, what.bytes_per_s // _TURNS_PER_S // len(what.flood))
    while not end.is_set():
        with suppress(OSError), socket.create_connection((parts.hostname, parts.port), timeout=5) as connection:
            done["opened"] += 1
            connection.sendall(what.opening)
            if what.opening:
                connection.recv(65_536)
            connection.sendall(what.first)
            connection.settimeout(1)
            while not end.is_set():
                began = time.monotonic()
                connection.sendall(turn)
                done["sent"] += len(turn)
                if what.reads:
                    _drain(connection)
                end.wait(max(0.0, len(turn) / what.bytes_per_s - (time.monotonic() - began)))
        end.wait(0.05)


def _drain(connection: socket.socket) -> None:
    connection.setblocking(False)
    with suppress(BlockingIOError):
        while connection.recv(262_144):
            pass
    connection.settimeout(1)


def _main(address: str) -> None:
    told = json.loads(sys.stdin.readline())
    what = Attack(
        **{name: base64.b64decode(value) if isinstance(value, str) else value for name, value in told.items()}
    )
    end, done = Event(), Counter[str]()
    threads = [Thread(target=_flood, args=(address, what, end, done)) for _ in range(what.connections)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    end.set()
    for thread in threads:
        thread.join()
    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1])
