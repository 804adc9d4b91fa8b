"""Lines and events are found wherever the stream is cut, and a long one is kept in part."""

import json

import pytest
from mcp.types import JSONRPCMessage

from agentic_backend.mcp.credentials import Credentials
from agentic_backend.mcp.framing import MOST_BYTES, Capped, Lines, ServerSentEvent, ServerSentEvents
from agentic_backend.mcp.inbound import Inbound


def events(stream: bytes, size: int) -> list[ServerSentEvent]:
    reader = ServerSentEvents()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    return [event for piece in pieces for event in reader.feed(piece)]


@pytest.mark.parametrize("size", [1, 2, 3, 1_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_are_found_wherever_the_stream_is_cut(size: int, end: bytes) -> None:
    lines = [
        b": a comment",
        b"id: 7",
        b"data: one",
        b"data:two",
        b"",
        b"",
        b"event: other",
        b"retry: 0",
        b"data",
        b"",
        b"x",
    ]
    first, second = events(end.join(lines), size)
    assert (first.name, bytes(first.data.head), first.id, first.retry_ms) == (b"message", b"one\ntwo", b"7", None)
    assert (second.name, bytes(second.data.head), second.retry_ms) == (b"other", b"", 1_000)


@pytest.mark.parametrize(("told", "kept"), [(b"0", 1_000), (b"2000", 2_000), (b"9" * 1_000, 30_000), (b"-5", None)])
def test_a_client_comes_back_neither_at_once_nor_never(told: bytes, kept: int | None) -> None:
    [event] = events(b"retry: " + told + b"\ndata: a\n\n", 64)
    assert event.retry_ms == kept


def test_an_event_is_written_as_it_was_read() -> None:
    [event] = events(b"id: 7\nretry: 1500\ndata: one\n\n", 64)
    assert event.encoded(b"1") == b"event: message\ndata: 1\nid: 7\nretry: 1500\n\n"
    assert event.encoded(None) == b"id: 7\nretry: 1500\n\n"
    assert ServerSentEvent().encoded(None) == b""


@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_lines_are_found_wherever_the_stream_is_cut(size: int) -> None:
    stream, lines = b"one\n\ntwo\nthree", Lines()
    found = [line for at in range(0, len(stream), size) for line in lines.feed(stream[at : at + size])]
    assert [bytes(line.head) for line in found] == [b"one", b"", b"two"]


@pytest.mark.parametrize("prefix", [b"", b"data: "])
def test_of_what_is_too_long_the_beginning_and_the_end_are_kept(prefix: bytes) -> None:
    body = b"<" + b"x" * (3 * MOST_BYTES) + b">"
    if prefix:
        [event] = events(prefix + body + b"\n\n", 65_536)
        kept = event.data
    else:
        [kept] = Lines().feed(body + b"\n")
    assert kept.is_cut and kept.size == len(body)
    assert kept.head.startswith(b"<xx") and MOST_BYTES - 64 < len(kept.head) <= MOST_BYTES
    assert kept.tail.endswith(b"xx>") and len(kept.tail) == 256


def message(text: bytes) -> Capped:
    capped = Capped()
    capped.add(text)
    return capped


@pytest.mark.parametrize("first", [True, False])
async def test_of_an_answer_that_is_cut_as_much_is_read_as_is_there(first: bool) -> None:
    result = b'"result":{"content":[{"type":"text","text":"' + b"x" * (2 * MOST_BYTES) + b'"}]}'
    text = b'{"jsonrpc":"2.0","id":5,%s}' % result if first else b'{%s,"jsonrpc":"2.0","id":5}' % result
    inbound = Inbound("s", Credentials())
    with inbound.awaiting(5):
        said = await inbound.read(message(text))
    assert said is not None
    JSONRPCMessage.model_validate_json(said)
    note, cut = json.loads(said)["result"]["content"]
    assert note["text"] == f"[cut: the result has {len(text)} bytes, of which the first {MOST_BYTES} were read]"
    assert cut["text"].startswith("xxx")


async def test_only_the_answer_to_an_open_request_is_let_in() -> None:
    inbound = Inbound("s", Credentials())
    answer = message(b'{"jsonrpc":"2.0","id":"5","result":{"content":[]}}')
    assert await inbound.read(answer) is None
    with inbound.awaiting(5), inbound.awaiting(6):
        assert await inbound.read(answer, 6) is None
        assert await inbound.read(answer, 5) is not None


@pytest.mark.parametrize("ends", [True, False])
async def test_an_answer_of_too_many_values_fails_its_call_at_once(ends: bool) -> None:
    inbound = Inbound("s", Credentials())
    text = b'{"jsonrpc":"2.0","id":5,"result":{"content":[%s' % (b"[]," * 700_000)
    with inbound.awaiting(5):
        said = await inbound.read(message(text + b"0]}}" if ends else text * 2))
    assert said is not None
    assert json.loads(said)["error"]["message"] == "The MCP server 's' gave an answer of too many values."


async def test_a_server_may_ask_now_and_then() -> None:
    inbound = Inbound("s", Credentials())
    ping = message(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    passed = [said for _ in range(1_000) if (said := await inbound.read(ping)) is not None]
    assert 1 <= len(passed) <= 50
    long = message(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"%s"}}' % (b"x" * 100_000))
    assert await inbound.read(long) is None
