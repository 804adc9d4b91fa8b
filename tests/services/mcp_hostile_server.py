"""An MCP server for tests that sends data no library would send: `python mcp_hostile_server.py TRANSPORT [LISTING]`.

Over HTTP it prints its port. Each tool misbehaves in one way; its argument `value` says how much. LISTING selects how
the list of tools misbehaves. It writes raw bytes, without a framework or a schema.
"""

import asyncio
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

PIECE = b"x" * 65_536
TRICKLE_S = 0.2

Messages = Iterator[bytes]


def message(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


def answer(request: Any, *texts: str, **fields: Any) -> bytes:
    content = [{"type": "text", "text": text} for text in texts]
    return message(id=request["id"], result={"content": content, **fields})


def notifications(request: Any, count: int, method: str, params: Callable[[int], Any]) -> Messages:
    for number in range(count):
        yield message(method=method, params=params(number))
    yield answer(request, "done")


def progress(request: Any, count: int) -> Messages:
    token = request["params"]["_meta"]["progressToken"]
    return notifications(
        request,
        count,
        "notifications/progress",
        lambda number: {"progressToken": token, "progress": number, "message": f"step {number} {'.' * 60}"},
    )


def long_progress(request: Any, size: int) -> Messages:
    token = request["params"]["_meta"]["progressToken"]
    for number in range(20):
        params = {"progressToken": token, "progress": number, "message": "x" * size}
        yield message(method="notifications/progress", params=params)
    yield answer(request, "done")


def late_method(request: Any, count: int) -> Messages:
    """Notifications whose method follows their parameters."""
    for number in range(count):
        yield json.dumps({"params": {"data": number}, "method": "notifications/message", "jsonrpc": "2.0"}).encode()
    yield answer(request, "done")


def logs(request: Any, count: int) -> Messages:
    return notifications(request, count, "notifications/message", lambda _: {"level": "info", "data": "y" * 100})


def changes(request: Any, count: int) -> Messages:
    return notifications(request, count, "notifications/tools/list_changed", lambda _: {})


def requests(request: Any, count: int) -> Messages:
    kinds = {
        "ping": {},
        "roots/list": {},
        "sampling/createMessage": {"messages": [], "maxTokens": 1},
        "elicitation/create": {"message": "What is it?", "requestedSchema": {"type": "object", "properties": {}}},
    }
    for number in range(count):
        method = list(kinds)[number % len(kinds)]
        yield message(id=f"of-the-server-{number}", method=method, params=kinds[method])
    yield answer(request, "done")


def strangers(request: Any, count: int) -> Messages:
    """Answers to requests that were never sent."""
    for number in range(count):
        yield message(id=1_000_000 + number, result={"content": []})
    yield answer(request, "done")


def garbage(request: Any, count: int) -> Messages:
    for _ in range(count):
        yield b"{no json"
    yield answer(request, "done")


def blocks(request: Any, count: int) -> Messages:
    yield answer(request, *["b"] * count)


def text(request: Any, size: int) -> Messages:
    """One text, in pieces that form one message; the id follows it, as some servers write it."""
    yield b'{"result":{"content":[{"type":"text","text":"'
    for _ in range(size // len(PIECE)):
        yield PIECE
    yield b'"}]},"jsonrpc":"2.0","id":%d}' % request["id"]


def structured(request: Any, count: int) -> Messages:
    yield answer(request, "beside", structuredContent={"values": list(range(count))})


def image(request: Any, size: int) -> Messages:
    block = {"type": "image", "mimeType": "image/png", "data": "A" * size}
    yield message(id=request["id"], result={"content": [{"type": "text", "text": "look"}, block]})


def resource(request: Any, size: int) -> Messages:
    block = {"type": "resource", "resource": {"uri": "demo://a", "text": "r" * size}}
    yield message(id=request["id"], result={"content": [block]})


def nesting(request: Any, depth: int) -> Messages:
    head = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"a":' % request["id"]
    yield head + b"[" * depth + b"]" * depth + b"}}}"


def error(request: Any, size: int) -> Messages:
    yield message(id=request["id"], error={"code": 1, "message": "e" * size, "data": "d" * size})


def pattern(request: Any, size: int) -> Messages:
    """A result whose validation against its schema never ends (see `tools`)."""
    yield answer(request, "matched", structuredContent={"word": "a" * size + "!"})


def trickle(request: Any, size: int) -> Messages:
    yield from (b"{" for _ in range(size))


TOOLS: dict[str, Callable[[Any, int], Messages]] = {
    function.__name__: function
    for function in (
        *(progress, long_progress, late_method, logs, changes, requests, strangers, garbage, blocks, text),
        *(structured, image, resource, nesting, error, pattern, trickle),
    )
}
IN_PIECES = {"text", "trickle"}
"""The tools whose pieces form one message."""

OF_HTTP = {"bomb", "error_body", "redirect", "header", "unknown_type"}
"""The tools that only exist over HTTP."""


def tools() -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"value": {"type": "string"}}}
    listed: list[dict[str, Any]] = [{"name": name, "inputSchema": schema} for name in (*TOOLS, *OF_HTTP)]
    word = {"type": "object", "properties": {"word": {"type": "string", "pattern": "^(a+)+$"}}}
    return [tool | ({"outputSchema": word} if tool["name"] == "pattern" else {}) for tool in listed]


def listing(kind: str, cursor: str | None) -> dict[str, Any]:
    extra: dict[str, Any] = {"name": "extra", "inputSchema": {"type": "object"}}
    match kind:
        case "many":
            return {"tools": tools() + [{**extra, "name": f"tool_{number}"} for number in range(100_000)]}
        case "large_schema":
            return {"tools": [*tools(), {**extra, "inputSchema": {"type": "object", "title": "s" * 3_000_000}}]}
        case "huge_schema":
            return {"tools": [*tools(), {**extra, "inputSchema": {"type": "object", "title": "s" * 100_000_000}}]}
        case "long_name":
            return {"tools": [*tools(), {**extra, "name": "n" * 1_000_000}]}
        case "long_description":
            return {"tools": [*tools(), {**extra, "description": "d" * 2_000_000}]}
        case "no_end":
            return {"tools": tools() if cursor is None else [], "nextCursor": str(int(cursor or 0) + 1)}
    return {"tools": tools()}


def answers(request: Any, kind: str) -> Messages:
    params = request.get("params") or {}
    match request.get("method"):
        case "initialize":
            said = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
            yield message(id=request["id"], result={**said, "serverInfo": {"name": "hostile", "version": "1"}})
        case "tools/list":
            yield message(id=request["id"], result=listing(kind, params.get("cursor")))
        case "tools/call":
            yield from TOOLS[params["name"]](request, int(params["arguments"].get("value") or 0))
        case "ping":
            yield message(id=request["id"], result={})


def is_in_pieces(request: Any) -> bool:
    return request.get("method") == "tools/call" and request["params"]["name"] in IN_PIECES


def pause_s(request: Any) -> float:
    trickles = request.get("method") == "tools/call" and request["params"]["name"] == "trickle"
    return TRICKLE_S if trickles else 0


async def over_stdio(kind: str) -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
        request = json.loads(line)
        for piece in answers(request, kind):
            sys.stdout.buffer.write(piece if is_in_pieces(request) else piece + b"\n")
            if delay_s := pause_s(request):
                sys.stdout.buffer.flush()
                await asyncio.sleep(delay_s)
        if is_in_pieces(request):
            sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()


class OverHttp:
    """Streamable HTTP, or SSE, where all answers use one stream."""

    def __init__(self, transport: str, kind: str) -> None:
        self._transport = transport
        self._kind = kind
        self._stream: asyncio.StreamWriter | None = None

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if b": " in line)
                body = await reader.readexactly(int(fields.get(b"content-length", 0)))
                if head.startswith(b"GET"):
                    await self._get(writer)
                elif head.startswith(b"POST"):
                    await self._post(json.loads(body), writer)
                else:
                    _reply(writer, 200)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _get(self, writer: asyncio.StreamWriter) -> None:
        if self._transport == "sse":
            self._stream = writer
            _begin(writer, "text/event-stream")
            await _chunk(writer, b"event: endpoint\ndata: /messages\n\n")
        else:
            _reply(writer, 405)

    async def _post(self, request: Any, writer: asyncio.StreamWriter) -> None:
        name = (request.get("params") or {}).get("name")
        if self._transport == "sse":
            _reply(writer, 202, PIECE)
            await writer.drain()
            assert self._stream is not None
            if "id" in request:
                await self._send_events(request, self._stream)
        elif "id" not in request or "method" not in request:
            _reply(writer, 202)
        elif name in OF_HTTP:
            await getattr(self, f"_{name}")(request, writer)
        else:
            _begin(writer, "text/event-stream")
            await self._send_events(request, writer)
            writer.write(b"0\r\n\r\n")

    async def _send_events(self, request: Any, writer: asyncio.StreamWriter) -> None:
        if is_in_pieces(request):
            await _chunk(writer, b"data: ")
            for piece in answers(request, self._kind):
                await _chunk(writer, piece)
                await asyncio.sleep(pause_s(request))
            await _chunk(writer, b"\n\n")
            return
        for piece in answers(request, self._kind):
            await _chunk(writer, b"data: " + piece + b"\n\n")

    async def _bomb(self, request: Any, writer: asyncio.StreamWriter) -> None:
        """A small body that decompresses to a large one."""
        body = gzip.compress(answer(request, "g" * int(request["params"]["arguments"]["value"])))
        _reply(writer, 200, body, "Content-Type: application/json\r\nContent-Encoding: gzip\r\n")

    async def _error_body(self, request: Any, writer: asyncio.StreamWriter) -> None:
        _begin(writer, "text/plain", 500)
        for _ in range(int(request["params"]["arguments"]["value"]) // len(PIECE)):
            await _chunk(writer, PIECE)
        writer.write(b"0\r\n\r\n")

    async def _redirect(self, request: Any, writer: asyncio.StreamWriter) -> None:
        _reply(writer, 307, PIECE, "Location: /mcp\r\n")

    async def _unknown_type(self, request: Any, writer: asyncio.StreamWriter) -> None:
        _reply(writer, 200, PIECE, "Content-Type: text/html\r\n")

    async def _header(self, request: Any, writer: asyncio.StreamWriter) -> None:
        _reply(writer, 200, answer(request, "done"), f"Content-Type: application/json\r\nX-Long: {'h' * 90_000}\r\n")


def _begin(writer: asyncio.StreamWriter, kind: str, status: int = 200) -> None:
    writer.write(f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())


def _reply(writer: asyncio.StreamWriter, status: int, body: bytes = b"", headers: str = "") -> None:
    writer.write(f"HTTP/1.1 {status} X\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body)


async def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n" % len(data) + data + b"\r\n")
    await writer.drain()


async def main(transport: str, kind: str = "") -> None:
    if transport == "stdio":
        await over_stdio(kind)
        return
    server = await asyncio.start_server(OverHttp(transport, kind).connected, "127.0.0.1", 0, limit=2**26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
