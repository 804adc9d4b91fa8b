"""The load: asks over WebSockets to a server on loopback, each answer read to its end. Bounded, and stops by itself.

Run as `python load_client.py ADDRESS AGENT CONCURRENCY TURNS` it is load only.
"""

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass, field

from figures import percentile
from servers import Server
from websockets.asyncio.client import ClientConnection, connect

PATH = "/agentic/v1/chatbot/query/ws"
_LONGEST_S = 120


@dataclass
class Load:
    """Times in ms, one per turn."""

    first_token: list[float] = field(default_factory=list)
    turn: list[float] = field(default_factory=list)
    frames: int = 0
    refused: int = 0
    """Asks that were refused because the server had too much to do, and sent again when it said."""


def socket_to(server: Server) -> connect:
    return connect(server.address.replace("http", "ws", 1) + PATH, subprotocols=["chat.v2"], compression=None)  # type: ignore[list-item]


async def turn(socket: ClientConnection, load: Load, ask: dict[str, str]) -> str:
    """One ask and its answer; the final."""
    began, first = time.perf_counter(), None
    await socket.send(json.dumps({"type": "ask", "message": "hello", **ask}))
    async with asyncio.timeout(_LONGEST_S):
        async for frame in socket:
            load.frames += 1
            assert isinstance(frame, str)
            if first is None and frame.startswith('{"type":"delta"'):
                first = time.perf_counter()
            if frame.startswith('{"type":"final"'):
                assert '"status":"ok"' in frame, frame
                load.first_token.append(((first or began) - began) * 1000)
                load.turn.append((time.perf_counter() - began) * 1000)
                return frame
            if frame.startswith('{"type":"error"'):
                await asyncio.sleep(wait_s(frame))
                load.refused, began = load.refused + 1, time.perf_counter()
                await socket.send(json.dumps({"type": "ask", "message": "hello", **ask}))
    raise AssertionError("the socket closed before the final")


def wait_s(refusal: str) -> float:
    """For how long an overloaded server wants to be left alone; any other refusal is a fault."""
    told = json.loads(refusal)
    assert told["code"] == "overloaded", refusal
    return float(told.get("retry_after_s", 1))


async def measure(server: Server, agent_id: str, concurrency: int, turns: int) -> dict[str, float]:
    """Figures of `turns` turns, `concurrency` at a time, each in a session of its own. Times in ms."""
    load, left = Load(), iter(range(turns))

    async def worker() -> None:
        async with socket_to(server) as socket:
            for _ in left:
                await turn(socket, load, {"agent_id": agent_id})

    cpu, began = server.cpu_s(), time.perf_counter()
    async with asyncio.TaskGroup() as workers:
        for _ in range(concurrency):
            workers.create_task(worker())
    elapsed, cpu = time.perf_counter() - began, server.cpu_s() - cpu
    return {
        "turns_per_s": turns / elapsed,
        "cpu_ms": cpu / turns * 1000,
        "first_token_p50": percentile(load.first_token, 50),
        "first_token_p95": percentile(load.first_token, 95),
        "turn_p50": percentile(load.turn, 50),
        "turn_p95": percentile(load.turn, 95),
        "frames": load.frames / turns,
        "refused": float(load.refused),
        "memory_kib": server.memory_kib(),
    }


async def grow_session(server: Server, agent_id: str, exchanges: int) -> list[float]:
    """The turn times in ms of so many exchanges of one session, one after the other."""
    load = Load()
    async with socket_to(server) as socket:
        ask = {"agent_id": agent_id}
        for _ in range(exchanges):
            final = await turn(socket, load, ask)
            ask = ask if "session_id" in ask else {**ask, "session_id": json.loads(final)["session_id"]}
    return load.turn


async def idle_sockets(server: Server, count: int) -> float:
    """Memory in KiB that one idle socket takes, of `count`."""
    before = server.memory_kib()
    sockets = [await socket_to(server) for _ in range(count)]
    await asyncio.sleep(1)
    grown = server.memory_kib() - before
    await asyncio.gather(*[socket.close() for socket in sockets])
    return grown / count


if __name__ == "__main__":
    address, agent, at_once, asks = sys.argv[1:]
    asyncio.run(measure(Server(address, os.getpid()), agent, int(at_once), int(asks)))
