"""One answer of very many small tokens: what the server keeps of it follows its text, and nobody waits for it."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from hostile.sizes import sized
from support.bystander import bystander
from support.chat_client import PATH, final_text
from support.fault_agents import words
from support.figures import figure
from support.server_process import ServerProcess, serving
from websockets.asyncio.client import connect

TOKENS = sized(50_000, 1_000_000)
# What a token may cost in memory at the peak, its text and all copies of it included.
BYTES_PER_TOKEN = 600
# Of the time that the answer takes, others may wait for this share at once; all of it where nobody lets them run.
LONGEST_SHARE = 0.2


@pytest.mark.parametrize("step", ["words", "spout"])
async def test_an_answer_of_many_tokens_is_no_burden(directory: Path, step: str) -> None:
    async with serving(cwd=directory) as server:
        await answer(server, f"{step} 100 0")
        idle = resident_bytes(server)
        async with bystander(server.address, server.internal) as felt:
            began = time.monotonic()
            said = await answer(server, f"{step} {TOKENS} 0")
            took_s = time.monotonic() - began
        grown = peak_bytes(server) - idle
    assert said == words(TOKENS)
    slowest_s = max(felt.slowest_s.values())
    figure(
        f"{TOKENS:,} tokens in one answer ({step}, {len(said) / 1e6:.1f} MB): {grown / 2**20:.0f} MiB above "
        f"idle, {grown / TOKENS:.0f} bytes a token, in {took_s:.0f} s; others waited {slowest_s:.2f} s at most"
    )
    assert grown < BYTES_PER_TOKEN * TOKENS
    assert slowest_s < LONGEST_SHARE * took_s


async def answer(server: ServerProcess, script: str) -> str:
    """The final text of an answer that is read as it comes."""
    url = server.address.replace("http", "ws", 1) + PATH
    async with connect(url, subprotocols=["chat.v2"], max_size=None) as socket:
        await socket.send(json.dumps({"message": script}))
        async with asyncio.timeout(sized(100, 1_000)):
            while True:
                event = json.loads(await socket.recv())
                if event["type"] == "final":
                    return final_text([event])


def resident_bytes(server: ServerProcess) -> int:
    return _status(server, "VmRSS")


def peak_bytes(server: ServerProcess) -> int:
    return _status(server, "VmHWM")


def _status(server: ServerProcess, name: str) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024
