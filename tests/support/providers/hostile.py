"""An OpenAI-compatible provider that misbehaves, over real sockets; the last word of the request says how.

It writes until its client disconnects, or until the way ends.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
LARGE = 10_000_000
CALLS = 100_000


def _chunk(delta: dict[str, Any], finish_reason: str | None = None, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    named = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "hostile", "choices": [choice]}
    return f"data: {json.dumps({**named, **fields})}\n\n".encode()


def _call(index: int, **function: Any) -> dict[str, Any]:
    return {"index": index, "id": f"call-{index}", "type": "function", "function": function}


def _ended(*chunks: bytes, finish_reason: str = "stop", **fields: Any) -> list[bytes]:
    return [*chunks, _chunk({}, finish_reason, **fields), b"data: [DONE]\n\n"]


def _arguments() -> Iterator[bytes]:
    yield _chunk({"tool_calls": [_call(0, name="note", arguments='{"value": "')]})
    piece = {"tool_calls": [{"index": 0, "function": {"arguments": "x" * 4_096}}]}
    yield from itertools.repeat(_chunk(piece))


def _line() -> Iterator[bytes]:
    yield b"data: "
    yield from itertools.repeat(b"x" * 65_536)


WAYS: dict[str, Callable[[], Any]] = {
    "text": lambda: itertools.repeat(_chunk({"content": "w" * 1_024})),
    "large": lambda: [_chunk({"content": "said "}), *itertools.repeat(_chunk({"content": "W" * LARGE}), 20)],
    "arguments": _arguments,
    "empty": lambda: itertools.repeat(_chunk({"content": ""})),
    "reasoning": lambda: itertools.repeat(_chunk({"content": "", "reasoning_content": "hm " * 100})),
    "ids": lambda: (_chunk({"content": "w" * 1_024}, id=f"c{number}") for number in itertools.count()),
    "calls": lambda: _ended(
        *(_chunk({"tool_calls": [_call(index, name="note", arguments="{}")]}) for index in range(CALLS)),
        finish_reason="tool_calls",
    ),
    "calls_at_once": lambda: _ended(
        _chunk({"tool_calls": [_call(index, name="note", arguments="{}") for index in range(CALLS)]}),
        finish_reason="tool_calls",
    ),
    "line": _line,
    "less": lambda: _ended(_chunk({"content": "fine"}), usage=_usage(-5)),
    "more": lambda: _ended(_chunk({"content": "fine"}), usage=_usage(2**62)),
    "well": lambda: _ended(_chunk({"content": "fine"})),
}


def _usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": tokens, "completion_tokens": tokens, "total_tokens": tokens}


async def _connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        asked = json.loads(await reader.readexactly(int(fields[b"content-length"])))
        way = str(asked["messages"][-1]["content"]).split()[-1]
        writer.write(_HEAD)
        for piece in WAYS.get(way, WAYS["well"])():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.transport.abort() if writer.is_closing() else writer.close()


@asynccontextmanager
async def hostile_provider() -> AsyncIterator[str]:
    """Run the provider; yield its URL."""
    server = await asyncio.start_server(_connected, "127.0.0.1", 0, limit=2**24)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
