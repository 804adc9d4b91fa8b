"""`make bench-doors`: the CPU that a turn costs the server on each door, as ratios to the WebSocket's in one run.

The doors take turns on one server: the same scripted agent, as many at once, each asking again and again in a session
of its own. The load is bounded, and stays on loopback.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import load_client
import servers
from figures import median
from servers import Server
from websockets.asyncio.client import connect

from agentic_backend.transports.contract import doors as contract

ROUNDS, AT_ONCE = 5, 50
TURNS = {"no-delay": 400, "five-ms": 150}
LIMIT = 1.3
_LONGEST_S = 120
_LAST_CHUNK = b"0\r\n\r\n"

Ask = Callable[[], Awaitable[None]]
"""Asks once, and reads the answer to its end."""
Door = Callable[[Server, str, str], AbstractAsyncContextManager[Ask]]
"""A client of a door, by the server, the agent's id and the session's."""


@asynccontextmanager
async def socket(server: Server, agent_id: str, session_id: str, subprotocols: list[Any] | None) -> AsyncIterator[Ask]:
    address = server.address.replace("http", "ws", 1) + load_client.PATH
    async with connect(address, subprotocols=subprotocols, compression=None) as client:

        async def ask() -> None:
            await client.send(json.dumps({"message": "hello", "session_id": session_id}))
            async for frame in client:
                assert isinstance(frame, str) and not frame.startswith('{"type":"error"'), frame
                if frame.startswith('{"type":"final"'):
                    return
            raise AssertionError("the socket closed before the final")

        yield ask


@asynccontextmanager
async def stream(
    server: Server, agent_id: str, session_id: str, path: str, body: dict[str, Any], end: bytes
) -> AsyncIterator[Ask]:
    """Its requests follow each other on one connection. `end` is in every answer that is complete."""
    names = {"session_id": session_id, "agent_id": agent_id}
    http = Http(*await _connection(server), server)
    try:

        async def ask() -> None:
            answer = await http.post(path.format(**names), _filled(body, {**names, "turn": uuid4().hex}))
            assert end in answer, answer

        yield ask
    finally:
        http.writer.close()


def _filled(value: Any, names: dict[str, str]) -> Any:
    """The JSON with the names in its texts filled in."""
    if isinstance(value, dict):
        return {name: _filled(each, names) for name, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, names) for each in value]
    return value.format(**names) if isinstance(value, str) else value


@dataclass(frozen=True)
class Http:
    """One connection, which posts JSON. So small that it costs the machine less than what it measures."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    server: Server

    async def post(self, path: str, body: dict[str, Any]) -> bytes:
        """The body of the answer, which has not failed; that of a stream with the lengths of its chunks."""
        sent = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: {urlsplit(self.server.address).netloc}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
        self.writer.write(head.encode() + sent)
        told = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        assert told.startswith((b"http/1.1 200", b"http/1.1 201")), told
        if b"transfer-encoding: chunked" not in told:
            return await self.reader.readexactly(int(told.split(b"content-length: ")[1].split(b"\r\n")[0]))
        chunks = b""
        while not chunks.endswith(_LAST_CHUNK):
            read = await self.reader.read(65536)
            assert read, "the stream was cut"
            chunks += read
        return chunks


async def _connection(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = urlsplit(server.address)
    return await asyncio.open_connection(address.hostname, address.port)


_MODEL = {"model": "{agent_id}"}
_HELLO = {"role": "user", "content": "hello"}
WEBSOCKET = "WebSocket"
DOORS: dict[str, Door] = {
    WEBSOCKET: partial(socket, subprotocols=["chat.v2"]),
    "classic": partial(socket, subprotocols=None),
    "REST and SSE": partial(
        stream,
        path="/agentic/v1/sessions/{session_id}/messages",
        body={"content": "hello"},
        end=b'"status":"ok"',
    ),
    "query": partial(
        stream,
        path="/agentic/v1/query",
        body={"content": "hello", "agent_id": "{agent_id}"},
        end=b'"status":"ok"',
    ),
    "session stream": partial(
        stream, path="/sessions/{session_id}/messages", body={"content": "hello"}, end=b'"type":"done"'
    ),
    "chat runs": partial(
        stream,
        path="/api/chat",
        body={"message": "hello", "conversationId": "{session_id}"},
        end=b'"status":"succeeded"',
    ),
    "OpenAI, chat": partial(
        stream,
        path="/v1/chat/completions",
        body={**_MODEL, "messages": [_HELLO], "metadata": {"conversation_id": "{session_id}"}, "stream": True},
        end=b"data: [DONE]",
    ),
    "OpenAI, chat, not kept": partial(
        stream, path="/v1/chat/completions", body={**_MODEL, "messages": [_HELLO], "stream": True}, end=b"data: [DONE]"
    ),
    "OpenAI, response": partial(
        stream,
        path="/v1/responses",
        body={**_MODEL, "input": "hello", "conversation": "{session_id}", "stream": True},
        end=b"event: response.completed",
    ),
    "MCP": partial(
        stream,
        path="/mcp",
        body={
            "jsonrpc": "2.0",
            "id": "{turn}",
            "method": "tools/call",
            "params": {
                "name": "{agent_id}",
                "arguments": {"message": "hello", "session_id": "{session_id}"},
                "_meta": {"progressToken": "{turn}"},
            },
        },
        end=b'"isError":false',
    ),
    "AG-UI": partial(
        stream,
        path="/ag-ui/agents/{agent_id}",
        body={"threadId": "{session_id}", "runId": "{turn}", "messages": [{"id": "1", **_HELLO}]},
        end=b'"outcome":{"type":"success"}',
    ),
}


async def cpu_ms(server: Server, door: Door, agent_id: str, turns: int) -> float:
    """The server's CPU per turn, of `turns` turns, AT_ONCE at a time."""
    ready, left = asyncio.Barrier(AT_ONCE + 1), iter(range(turns))

    async def worker() -> None:
        async with door(server, agent_id, await _session(server, agent_id)) as ask:
            # The first builds the agent.
            await ask()
            await ready.wait()
            for _ in left:
                await ask()

    async with asyncio.timeout(_LONGEST_S), asyncio.TaskGroup() as workers:
        tasks = [workers.create_task(worker()) for _ in range(AT_ONCE)]
        await ready.wait()
        before = server.cpu_s()
        await asyncio.wait(tasks)
        return (server.cpu_s() - before) / turns * 1000


async def _session(server: Server, agent_id: str) -> str:
    """A session that has a title, so that no model is asked for one."""
    http = Http(*await _connection(server), server)
    try:
        opened = json.loads(await http.post("/agentic/v1/sessions", {"agent_id": agent_id, "title": "measured"}))
        return str(opened["id"])
    finally:
        http.writer.close()


def measure(rounds: int = ROUNDS) -> dict[str, dict[str, float]]:
    """The median of the CPU per turn in ms, by agent and door."""
    found: dict[str, dict[str, list[float]]] = {agent_id: {name: [] for name in DOORS} for agent_id in TURNS}
    opened = {"AGENTIC_SERVER__DOORS": json.dumps([door.name for door in contract.DOORS if door.by_setting])}
    with (
        tempfile.TemporaryDirectory() as directory,
        servers.product(Path(directory), environment=opened) as server,
    ):
        for number in range(rounds):
            for agent_id, turns in TURNS.items():
                # Each round begins with another door: what one leaves to do costs the next a little.
                for name in _from(number):
                    found[agent_id][name].append(asyncio.run(cpu_ms(server, DOORS[name], agent_id, turns)))
    return {agent_id: {name: median(each) for name, each in of.items()} for agent_id, of in found.items()}


def _from(number: int) -> Iterator[str]:
    names = list(DOORS)
    for place in range(len(names)):
        yield names[(number + place) % len(names)]


def table(found: dict[str, dict[str, float]]) -> str:
    """The figures in Markdown."""
    lines = [
        f"| door, {AT_ONCE} at a time | {' | '.join(f'{agent_id} CPU ms/turn | × WebSocket' for agent_id in found)} |",
        f"|---|{'---|---|' * len(found)}",
    ]
    for name in DOORS:
        cells = [f"{of[name]:.1f} | {of[name] / of[WEBSOCKET]:.2f}" for of in found.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(measure()))
