"""Event streams on the wire: what comes at once is one chunk, comments keep the connection, HEAD streams nothing."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from urllib.parse import urlsplit

import pytest
from starlette.types import Message
from support.chat_client import PATIENCE_S
from support.rest_client import PREFIX, rest
from support.running_server import RunningServer

from agentic_backend.protocol.parts import TextPart
from agentic_backend.transports import sse
from agentic_backend.transports.sse import EventStream, ServerSentEvent

HELLO, BYE = ServerSentEvent(data='"hello"', event="said", id="e:1"), ServerSentEvent(data='"bye"', event="said")


async def sent_by(events: AsyncIterator[Sequence[ServerSentEvent]], *, method: str = "POST") -> list[Message]:
    """The messages of a stream to a client that stays."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("nobody comes")

    scope = {"type": "http", "method": method, "state": {"has_client_ended": lambda: False}}
    await EventStream(events, nullcontext())(scope, receive, send)
    return sent


async def test_what_comes_at_once_is_one_chunk() -> None:
    async def events() -> AsyncIterator[Sequence[ServerSentEvent]]:
        yield [HELLO, BYE]
        yield []
        yield [BYE]

    start, *chunks = await sent_by(events())
    assert start["status"] == 200
    assert [(chunk["body"], chunk["more_body"]) for chunk in chunks] == [
        (b'id: e:1\nevent: said\ndata: "hello"\n\nevent: said\ndata: "bye"\n\n', True),
        (b'event: said\ndata: "bye"\n\n', True),
        (b"", False),
    ]


def test_a_text_with_any_line_breaks_is_one_line_to_every_reader() -> None:
    text = "".join(map(chr, range(0x2100)))
    event = ServerSentEvent(data=TextPart(text=text).model_dump_json(), event="said")
    named, data, end = event.encode().decode().splitlines()
    assert (named, end) == ("event: said", "")
    assert json.loads(data.removeprefix("data: "))["text"] == text


async def test_an_error_of_the_events_leaves_the_stream_incomplete() -> None:
    async def events() -> AsyncIterator[Sequence[ServerSentEvent]]:
        yield [HELLO]
        raise ValueError("it broke")

    with pytest.raises(ValueError, match="it broke"):
        await sent_by(events())


async def test_a_request_for_the_head_gets_no_events(server: RunningServer) -> None:
    async with rest(server) as http:
        session_id = (await http.post("/sessions", json={})).json()["id"]
        response = await http.head(f"/sessions/{session_id}/events")
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"].startswith("text/event-stream")


async def test_comments_come_while_nothing_happens(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_COMMENT_EVERY_S", 0.05)
    async with rest(server) as http:
        session_id = (await http.post("/sessions", json={})).json()["id"]
        async with http.stream("GET", f"/sessions/{session_id}/events") as response, asyncio.timeout(PATIENCE_S):
            lines = [line async for line in _first(response.aiter_lines(), 8)]
    assert lines[0] == "event: idle"
    assert lines.count(": ping") >= 2


async def test_the_events_that_are_there_already_come_in_few_chunks(server: RunningServer) -> None:
    async with rest(server) as http:
        session_id = (await http.post("/sessions", json={"agent_id": "echo"})).json()["id"]
        for _ in range(2):
            # The second is answered from what the first has left.
            body = json.dumps({"content": "hello", "client_exchange_id": "once"}).encode()
            address = urlsplit(server.address)
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            head = f"POST {PREFIX}/sessions/{session_id}/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            async with asyncio.timeout(PATIENCE_S):
                answer = await reader.read(-1)
            writer.close()
    _, _, chunked = answer.partition(b"\r\n\r\n")
    size, _, rest_of = chunked.partition(b"\r\n")
    first = rest_of[: int(size, 16)]
    assert first.count(b"event: ") == 4, "started, two messages and the final"


async def _first(lines: AsyncIterator[str], count: int) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        count -= 1
        if not count:
            return
