"""A provider of models on loopback, in a process of its own: OpenAI's chat completions, of bytes that are ready.

The base URL is `/no-delay/v1` or `/five-ms/v1`, the model one of `provider_answers.KINDS`; one that has called its
tools answers with text. `GET /asked` tells how many titles and how many answers were asked for. Run as
`python provider_server.py`; prints the address that it listens on, and serves until it is terminated.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial

import provider_answers
import uvloop

DELAYS_S = {"no-delay": 0.0, "five-ms": 0.005}
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_MODEL = re.compile(rb'"model": *"([a-z]+)"')
_STREAMED = re.compile(rb'"stream": *true')
_TITLE = b"You name conversations."
_HAS_CALLED = re.compile(rb'"role": *"tool"')


class Provider(asyncio.Protocol):
    """One connection, whose requests follow each other. `asked` counts the titles and answers of all connections."""

    def __init__(self, asked: Counter[str]) -> None:
        self._asked = asked
        self._received = b""
        self._next: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._next is not None:
            self._next.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if end and len(body) >= (int(length[1]) if length else 0):
            self._received = b""
            self._answer(head.split(b" ", 2)[1].decode(), body)

    def _answer(self, path: str, body: bytes) -> None:
        if path == "/asked":
            told = json.dumps(self._asked).encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(told), told))
            return
        is_title = _TITLE in body
        self._asked["titles" if is_title else "answers"] += 1
        if not _STREAMED.search(body):
            self._transport.write(provider_answers.whole("A short title" if is_title else "abcd"))
            return
        model = _MODEL.search(body)
        kind = model[1].decode() if model and not _HAS_CALLED.search(body) else "text"
        begin, ticks = provider_answers.stream(kind)
        delay_s = DELAYS_S[path.split("/", 2)[1]]
        if not delay_s:
            self._transport.write(begin + b"".join(ticks))
            return
        self._transport.write(begin)
        self._tick(ticks, 0, asyncio.get_running_loop().time(), delay_s)

    def _tick(self, ticks: Sequence[bytes], number: int, began: float, delay_s: float) -> None:
        """Send what is due, and wait for the next; a late one does not delay those after it."""
        if number and ticks[number - 1]:
            self._transport.write(ticks[number - 1])
        self._next = None
        if number < len(ticks):
            loop = asyncio.get_running_loop()
            at = began + (number + 1) * delay_s
            self._next = loop.call_at(at, self._tick, ticks, number + 1, began, delay_s)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(partial(Provider, Counter()), "127.0.0.1", 0, backlog=1000)
    print(f"Provider at http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
