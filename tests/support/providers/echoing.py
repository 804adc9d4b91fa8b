"""A neighbour, of models and of MCP, that repeats what it is sent in its refusals, over real sockets.

The first part of the path says how it refuses. Each answer quotes the request's line and all its headers.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

WAYS = {"unauthorized": 401, "limited": 429, "broken": 500, "moved": 307, "garbage": 200}


def _answer(head: str) -> bytes:
    line, *headers = head.split("\r\n")
    target = line.split(" ")[1]
    status = WAYS.get(target.split("/")[1], 404)
    said = f"You sent {line} with {' and '.join(filter(None, headers))}"
    body = json.dumps({"error": {"message": said, "type": said, "code": said, "param": said}}).encode()
    location = f"Location: /broken{target}\r\n" if status == HTTPStatus.TEMPORARY_REDIRECT else ""
    fields = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{location}{fields}\r\n".encode() + body


async def _connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lengths = [
            int(line.partition(":")[2]) for line in head.lower().split("\r\n") if line.startswith("content-length:")
        ]
        await reader.readexactly(lengths[0] if lengths else 0)
        writer.write(_answer(head))
        await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        # A client that speaks TLS, or that has gone.
        pass
    finally:
        writer.close()


@asynccontextmanager
async def echoing_neighbour() -> AsyncIterator[str]:
    """Run it; yield its host and port."""
    server = await asyncio.start_server(_connected, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
