"""Bystander: measures the delays of other clients while one client misbehaves.

A separate process, so that it does not measure the attacking test: it requests the page, `/health/live` and a pong in
turn, and reports the slowest answer of each, in seconds. A request that is refused or unanswered after GIVEN_UP_S
counts as GIVEN_UP_S. It also asks an idle process: that delay comes from the machine itself, and bounds allow for it.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from support.chat_client import chat
from support.rest_client import plain_http

GIVEN_UP_S = 30.0
_EVERY_S = 0.05
# A bound allows this multiple of the idle process's slowest answer.
_ROOM = 10
_IDLE = """
import socket
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    connection, _ = listener.accept()
    while data := connection.recv(1):
        connection.sendall(data)
"""


@dataclass
class Felt:
    """The slowest answers in seconds by request (`page`, `live`, `pong`); set when the context is left."""

    slowest_s: dict[str, float] = field(default_factory=dict)
    idle_s: float = 0.0
    """The slowest answer of the idle process."""
    answers: int = 0

    @property
    def room_s(self) -> float:
        """The allowance of a bound for the machine's own delays."""
        return _ROOM * self.idle_s

    def waited_at_most(self, bound_s: float) -> bool:
        return max(self.slowest_s.values()) < bound_s + self.room_s


@asynccontextmanager
async def bystander(address: str, internal: str | None, *, token: str | None = None) -> AsyncIterator[Felt]:
    """Measure while the context is open, which starts after the first answers."""
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "support.bystander", address, internal or "", token or ""],
        cwd=Path(__file__).parent.parent,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    felt = Felt()
    try:
        assert await process.stdout.readline() == b"ready\n"
        yield felt
        process.stdin.close()
        told = json.loads(await process.stdout.readline())
        felt.idle_s = told["slowest_s"].pop("idle")
        felt.slowest_s, felt.answers = told["slowest_s"], told["answers"]
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def _idle_process() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _IDLE, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", int(await process.stdout.readline()))
    try:
        yield reader, writer
    finally:
        # The process ends with its connection.
        writer.close()
        await process.wait()


async def _measure(address: str, internal: str, token: str) -> None:
    slowest = dict.fromkeys(("page", "live", "pong", "idle") if internal else ("page", "pong", "idle"), 0.0)
    answers, loop = 0, asyncio.get_running_loop()
    end = asyncio.create_task(asyncio.to_thread(sys.stdin.read))

    async with (
        plain_http(timeout=GIVEN_UP_S) as http,
        chat(address, token=token or None) as client,
        _idle_process() as ends,
    ):

        async def page() -> None:
            (await http.get(f"{address}/")).raise_for_status()

        async def live() -> None:
            (await http.get(f"{internal}/health/live")).raise_for_status()

        async def pong() -> None:
            await client.send({"type": "ping"})
            await client.until("pong", timeout_s=GIVEN_UP_S)

        async def idle() -> None:
            ends[1].write(b"x")
            async with asyncio.timeout(GIVEN_UP_S):
                await ends[0].readexactly(1)

        calls = {"page": page, "live": live, "pong": pong, "idle": idle}
        while not end.done():
            for name in slowest:
                began = loop.time()
                try:
                    await calls[name]()
                    took_s = loop.time() - began
                except (httpx.HTTPError, TimeoutError, OSError):
                    took_s = GIVEN_UP_S
                # The first round opens connections.
                if answers:
                    slowest[name] = max(slowest[name], took_s)
            if not answers:
                print("ready", flush=True)
            answers += 1
            await asyncio.sleep(_EVERY_S)
    print(json.dumps({"slowest_s": slowest, "answers": answers}), flush=True)


if __name__ == "__main__":
    asyncio.run(_measure(*sys.argv[1:4]))
