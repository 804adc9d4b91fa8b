"""A provider on loopback that answers each API with its recorded stream, made long: one event is one chunk of HTTP.

Run as `python recorded_provider.py EVENTS`; prints the address that it listens on, and serves until it is terminated.
`/close` in front of a path has the connection closed after the answer.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping
from functools import partial

import uvloop

from agentic_backend.agents.provider_streams import recorded_streams

# The API's path, its recorded stream, and what marks the event that is repeated.
_STREAMS: Mapping[str, tuple[Callable[[], bytes], bytes]] = {
    "/v1/chat/completions": (recorded_streams.completions, b'"world"'),
    "/v1/responses": (recorded_streams.responses, b'"response.output_text.delta"'),
    "/v1/messages": (recorded_streams.messages, b'"text_delta"'),
}
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"


def answer(path: str, events: int) -> bytes:
    recorded, mark = _STREAMS[path]
    body = b""
    for event in recorded().removesuffix(b"\n\n").split(b"\n\n"):
        body += b"%x\r\n%b\n\n\r\n" % (len(event) + 2, event) * (events if mark in event else 1)
    return body + b"0\r\n\r\n"


class Provider(asyncio.Protocol):
    def __init__(self, answers: Mapping[str, bytes]) -> None:
        self._answers = answers
        self._received = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if not end or len(body) < int(length or 0):
            return
        self._received = b""
        path = head.split(b" ", 2)[1].decode()
        closes = path.startswith("/close/")
        begin = _HEAD + (b"connection: close\r\n\r\n" if closes else b"\r\n")
        self._transport.write(begin + self._answers[path.removeprefix("/close")])
        if closes:
            self._transport.close()


async def serve(events: int) -> None:
    answers = {path: answer(path, events) for path in _STREAMS}
    server = await asyncio.get_running_loop().create_server(partial(Provider, answers), "127.0.0.1", 0)
    print(f"Provider at http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
