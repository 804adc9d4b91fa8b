"""TextGathering: what it hands on says the same as what it was given, in the same order, and in fewer parts."""

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.streaming.model.text_gathering import TextGathering

CALL = {"run_id": "1"}
OTHER = {"run_id": "2"}


def said(text: str, call: dict[str, Any] = CALL, **fields: Any) -> StreamPart:
    return (), "messages", (AIMessageChunk(text, id="m", **fields), call)


def texts(parts: list[StreamPart]) -> list[str]:
    return [str(payload[0].content) if mode == "messages" else mode for _, mode, payload in parts]


async def test_the_first_text_comes_at_once_and_later_text_in_one_part() -> None:
    got: list[StreamPart] = []
    stream = TextGathering(got.append, lambda: 0.025)
    for text in ("a", "b", "c", "d"):
        stream.take(said(text, response_metadata={"provider": "p"}))
    assert texts(got) == ["a"]
    stream.flush()
    assert texts(got) == ["a", "bcd"]
    message, call = got[1][2]
    assert (message.id, message.response_metadata, call) == ("m", {"provider": "p"}, CALL)


async def test_text_comes_soon_if_nothing_else_follows() -> None:
    came = asyncio.Event()
    got: list[StreamPart] = []

    def sink(part: StreamPart) -> None:
        got.append(part)
        if len(got) == 2:
            came.set()

    stream = TextGathering(sink, lambda: 0.025)
    stream.take(said("a"))
    stream.take(said("b"))
    async with asyncio.timeout(5):
        await came.wait()
    assert texts(got) == ["a", "b"]


async def test_text_after_a_pause_does_not_wait() -> None:
    got: list[StreamPart] = []
    stream = TextGathering(got.append, lambda: 0.025)
    stream.take(said("a"))
    await asyncio.sleep(0.05)
    stream.take(said("b"))
    assert texts(got) == ["a", "b"]


@pytest.mark.parametrize(
    "other",
    [
        said("!", OTHER),
        said(""),
        said("!", usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}),
        said("!", additional_kwargs={"reasoning_content": "so"}),
        said("!", response_metadata={"finish_reason": "stop"}),
        said("!", chunk_position="last"),
        said("", tool_call_chunks=[{"name": "f", "args": "", "id": "c", "index": 0, "type": "tool_call_chunk"}]),
        ((), "messages", (AIMessageChunk("!", id="n"), CALL)),
        ((), "messages", (AIMessageChunk([{"type": "text", "text": "!"}], id="m"), CALL)),
        ((), "updates", {}),
        ((), "custom", {"progress": 1}),
    ],
)
async def test_everything_else_comes_at_once_after_the_text_before_it(other: StreamPart) -> None:
    got: list[StreamPart] = []
    stream = TextGathering(got.append, lambda: 0.025)
    for part in (said("a"), said("b"), said("c"), other):
        stream.take(part)
    assert texts(got)[:2] == ["a", "bc"]
    assert got[2] is other


async def test_no_more_gathers_than_is_bounded_however_fast_it_comes() -> None:
    got: list[StreamPart] = []
    stream = TextGathering(got.append, lambda: 0.025)
    for _ in range(2_000):
        stream.take(said("x"))
    assert len(got) >= 4
    stream.flush()
    assert "".join(texts(got)) == "x" * 2_000


async def test_a_failure_of_the_sink_reaches_the_run() -> None:
    failed = asyncio.Event()

    def sink(part: StreamPart) -> None:
        if part[2][0].content == "b":
            failed.set()
            raise ValueError("b")

    stream = TextGathering(sink, lambda: 0.025)
    stream.take(said("a"))
    stream.take(said("b"))
    async with asyncio.timeout(5):
        await failed.wait()
    with pytest.raises(ValueError, match="b"):
        stream.flush()
