"""Bystander: what everybody else feels while one client misbehaves.

A process of its own, so that the attacking test's work is not measured: it asks for the page, for `/health/live` and
for a pong in turn, and tells how long the slowest answer of each took, in seconds. A request that is refused or
unanswered after GIVEN_UP_S counts as that long.
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

GIVEN_UP_S = 30.0
_EVERY_S = 0.05


@dataclass
class Felt:
    """The slowest answers in seconds, by what was asked for: `page`, `live`, `pong`; set once the block is left."""

    slowest_s: dict[str, float] = field(default_factory=dict)
    answers: int = 0


@asynccontextmanager
async def bystander(address: str, internal: str | None, *, token: str | None = None) -> AsyncIterator[Felt]:
    """Measure until the block is left. It has had its first answers when the block begins."""
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
        felt.slowest_s, felt.answers = told["slowest_s"], told["answers"]
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _measure(address: str, internal: str, token: str) -> None:
    slowest = dict.fromkeys(("page", "live", "pong") if internal else ("page", "pong"), 0.0)
    answers, loop = 0, asyncio.get_running_loop()
    end = asyncio.create_task(asyncio.to_thread(sys.stdin.read))

    async with httpx.AsyncClient(timeout=GIVEN_UP_S) as http, chat(address, token=token or None) as client:

        async def page() -> None:
            (await http.get(f"{address}/")).raise_for_status()

        async def live() -> None:
            (await http.get(f"{internal}/health/live")).raise_for_status()

        async def pong() -> None:
            await client.send({"type": "ping"})
            await client.until("pong", timeout_s=GIVEN_UP_S)

        calls = {"page": page, "live": live, "pong": pong}
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
