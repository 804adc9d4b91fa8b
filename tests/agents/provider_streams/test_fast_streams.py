"""Streams read in the faster way and in the packages' own: the same chunks and the same errors, whatever is sent."""

import asyncio
import json
import sys
import time
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any, Self

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import StreamChunkTimeoutError
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionChunk
from pydantic import model_validator
from support.further_cases import further
from support.providers.recorded_server import recorded_server

from agentic_backend.agents.models.chat_models import build_model
from agentic_backend.agents.provider_streams import fast_streams
from agentic_backend.agents.provider_streams.exact_events import ExactEvents
from agentic_backend.agents.provider_streams.recorded_streams import completions, messages, responses
from agentic_backend.config.settings import ModelSettings

KEY = "sk-of-the-tests-0123456789abcdef"
RECORDED = {"completions": completions(), "responses": responses(), "messages": messages()}
TOLD = ("body", "code", "request_id", "status_code", "message", "timeout_s", "model_name", "chunks_received")
BASE = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
Outcome = tuple[list[Any], tuple[Any, ...] | None]
DONE = b"data: [DONE]\n\n"


def model(api: str, url: str, *, fast: bool, **more: Any) -> BaseChatModel:
    options: dict[str, Any] = {"base_url": url, "api_key": KEY, "max_retries": 0, **more}
    if api == "messages":
        # Without tools, LangChain warns of calls.
        options["model_kwargs"] = {"tools": [{"name": "look_up", "input_schema": {"type": "object"}}]}
        return build_model(ModelSettings(model="anthropic:claude-sonnet-5-5", options=options), "", fast_streams=fast)
    options["use_responses_api"] = api == "responses"
    return build_model(ModelSettings(model="openai:gpt-4o", options=options), "", fast_streams=fast)


async def outcome(model: BaseChatModel) -> Outcome:
    """The chunks, and what the error says."""
    chunks: list[Any] = []
    try:
        async for chunk in model._astream([HumanMessage("?")]):
            message = chunk.message
            chunks.append((chunk.text, chunk.generation_info, type(message), message.model_dump()))
            assert type(chunk) is ChatGenerationChunk
    except Exception as error:
        told = {name: getattr(error, name, None) for name in TOLD}
        return chunks, (type(error), str(error), told)
    return chunks, None


async def check_equal(api: str, packets: Sequence[bytes], *, breaks: bool = False) -> Outcome:
    async with recorded_server(packets, breaks=breaks) as url:
        ordinary = await outcome(model(api, url, fast=False))
        fast = await outcome(model(api, url, fast=True))
    # A NaN equals no other.
    assert repr(fast) == repr(ordinary)
    return fast


def chunk(delta: Any = None, **more: Any) -> dict[str, Any]:
    return {**BASE, "choices": [{"index": 0, "delta": delta, "finish_reason": None, **more}]}


def sent(*chunks: Any) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(chunk, ensure_ascii=False).encode() for chunk in chunks)


def cut(recorded: bytes, length: int) -> list[bytes]:
    return [recorded[start : start + length] for start in range(0, len(recorded), length)]


@pytest.mark.parametrize("api", RECORDED)
@pytest.mark.parametrize("length", [1_000_000, 1_000, 61, 7])
async def test_recorded_streams_are_equal_however_they_are_cut(api: str, length: int) -> None:
    chunks, error = await check_equal(api, cut(RECORDED[api], length))
    assert len(chunks) > 5 and error is None
    assert "Grüße" in repr(chunks)


@pytest.mark.parametrize("api", RECORDED)
@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
@pytest.mark.parametrize("length", [1_000_000, 13])
async def test_every_line_ending_is_read(api: str, end: bytes, length: int) -> None:
    chunks, error = await check_equal(api, cut(RECORDED[api].replace(b"\n", end), length))
    assert len(chunks) > 5 and error is None


@pytest.mark.parametrize("api", RECORDED)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("breaks", [True, False], ids=["broken", "ended"])
async def test_a_stream_that_ends_too_early_ends_equally(api: str, share: float, breaks: bool) -> None:
    recorded = RECORDED[api]
    _, error = await check_equal(api, [recorded[: int(len(recorded) * share)]] if share else [], breaks=breaks)
    assert (error is not None) == breaks


@pytest.mark.parametrize(
    "told",
    [
        b'data: {"error": {"message": "overloaded", "type": "server_error", "code": "overloaded"}}\n\n',
        b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n',
        b'event: error\ndata: {"type": "error", "code": "overloaded", "message": "Overloaded", "param": null, '
        b'"sequence_number": 3}\n\n',
        b'data: {"error": "overloaded"}\n\n',
        b'data: {"error": {"message": "maximum context length", "code": "context_length_exceeded"}}\n\n',
        b"event: error\ndata: overloaded\n\n",
    ],
    ids=["object", "named", "flat", "text", "context", "no JSON"],
)
@pytest.mark.parametrize("api", RECORDED)
async def test_an_error_within_a_stream_is_told_equally(api: str, told: bytes) -> None:
    recorded = RECORDED[api]
    middle = recorded.index(b"\n\n", len(recorded) // 2) + 2
    await check_equal(api, [recorded[:middle], told, recorded[middle:]])


CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CHUNKS: Iterable[Any] = [
    chunk({"content": "a", "unknown": {"deep": [1, 2.5, None]}}, unknown=1, token_ids=[1, 2]),
    {**chunk({"content": "a"}), "unknown": {"a": 1}, "created": 1.5},
    {"choices": [{"delta": {"content": "a"}}]},
    {"choices": [{"delta": None}]},
    {"choices": [{}]},
    {"choices": [None]},
    {"choices": None},
    {"choices": "x"},
    {},
    [],
    [1],
    None,
    "text",
    7,
    chunk(None),
    chunk([]),
    chunk({"content": 5}),
    chunk({"content": ["a", {"type": "text", "text": "b"}]}),
    chunk({"content": "a", "role": "user"}),
    chunk({"content": "a", "role": "robot"}),
    chunk({"content": "a", "role": "tool", "tool_call_id": "t"}),
    chunk({"content": "a", "id": "message_1"}),
    chunk({"content": "a"}, index="0"),
    chunk({"content": "a"}, finish_reason="model_length"),
    chunk({"content": "a"}, finish_reason=3),
    chunk({"content": "a"}, logprobs={"content": [{"token": "a", "logprob": -1, "top_logprobs": []}]}),
    chunk({"content": "a"}, logprobs={"content": [{"token": "a", "logprob": "-1"}]}),
    chunk({"content": "a"}, logprobs={"refusal": None}),
    chunk({"content": "a"}, logprobs={}),
    chunk({"refusal": "no"}),
    chunk({"function_call": {"name": "f"}}),
    chunk({"function_call": {"arguments": "{}"}}),
    chunk({"audio": {"id": "a", "data": "AAAA"}}),
    chunk({"tool_calls": [CALL]}),
    chunk({"tool_calls": [{**CALL, "function": None}]}),
    chunk({"tool_calls": [{"index": 0}]}),
    chunk({"tool_calls": [{**CALL, "index": None}]}),
    chunk({"tool_calls": [{**CALL, "index": "1"}]}),
    chunk({"tool_calls": [{**CALL, "type": "custom"}]}),
    chunk({"tool_calls": [{**CALL, "function": {"arguments": {"a": 1}}}]}),
    chunk({"tool_calls": CALL}),
    chunk({"tool_calls": []}),
    {**chunk({"content": "a"}), "choices": [*chunk({"content": "a"})["choices"], *chunk({"content": "b"})["choices"]]},
    {**BASE, "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}},
    {**BASE, "choices": [], "usage": {"prompt_tokens": "1", "completion_tokens": 2.0}},
    {**BASE, "choices": [], "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}}},
    {**chunk({"content": "a"}), "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
    {**BASE, "choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
    {**BASE, "choices": [], "service_tier": "flex", "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
    {**BASE, "type": "content.delta"},
    {**chunk({"content": "a"}), "type": ["x"]},
]


@pytest.mark.parametrize("odd", CHUNKS, ids=lambda odd: json.dumps(odd)[-60:])
async def test_a_chunk_of_any_form_becomes_the_same(odd: Any) -> None:
    await check_equal("completions", [sent(chunk({"content": "before"}), odd, chunk({"content": "after"})) + DONE])


PLACE = {"item_id": "m", "output_index": 0, "content_index": 0, "sequence_number": 2}
EVENTS: Iterable[Any] = [
    {"type": "response.output_text.delta", **PLACE, "delta": "a"},
    {"type": "response.output_text.delta", **PLACE, "delta": "a", "logprobs": [], "output_index": "0"},
    {"type": "response.output_text.delta", "delta": "a", "output_index": 0, "content_index": 0},
    {"type": "response.output_text.delta", **PLACE, "delta": 5, "logprobs": []},
    {"type": "response.refusal.done", **PLACE, "refusal": "no"},
    {"type": "response.reasoning_text.delta", **PLACE, "delta": "a"},
    {"type": "response.of.tomorrow", **PLACE, "delta": "a"},
    {"type": None},
    {"type": {"a": 1}},
    {"type": "response.failed", "sequence_number": 2, "response": {"id": "r", "error": {"code": "x", "message": "y"}}},
    {"type": "error", "code": None, "message": "y", "param": None, "sequence_number": 2},
    {
        "type": "response.output_item.done",
        "output_index": 0,
        "sequence_number": 2,
        "item": {
            "type": "web_search_call",
            "id": "w",
            "status": "completed",
            "action": {"type": "search", "query": "q"},
        },
    },
]


@pytest.mark.parametrize("odd", EVENTS, ids=lambda odd: json.dumps(odd)[:60])
async def test_an_event_of_responses_of_any_form_becomes_the_same(odd: Any) -> None:
    await check_equal("responses", [sent(odd), responses()])


DELTA = {"type": "content_block_delta", "index": 0}
MESSAGE_EVENTS: Iterable[Any] = [
    {**DELTA, "delta": {"type": "text_delta", "text": "a", "unknown": 1}},
    {**DELTA, "delta": {"type": "text_delta", "text": 5}},
    {**DELTA, "delta": {"type": "text_delta"}},
    {**DELTA, "delta": {"type": "delta_of_tomorrow", "text": "a"}},
    {**DELTA, "index": "0", "delta": {"type": "text_delta", "text": "a"}},
    {**DELTA, "delta": {"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "a"}}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "x"}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "begun", "citations": None}},
    {"type": "event_of_tomorrow"},
    {"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 1}},
]


@pytest.mark.parametrize("odd", MESSAGE_EVENTS, ids=lambda odd: json.dumps(odd)[:90])
async def test_an_event_of_messages_of_any_form_becomes_the_same(odd: Any) -> None:
    named = b"event: " + odd["type"].encode() + b"\n" + sent(odd)
    await check_equal("messages", [named, messages()])


@pytest.mark.parametrize(
    "odd",
    [
        b": comment\n\n: another\n\n",
        b"\n\n\n",
        b"id: 7\n" + sent(chunk({"content": "a"})) + b"\n\n",
        b"id: 7\n\n\n",
        b"retry: 5\n" + sent(chunk({"content": "a"})),
        b"data:" + sent(chunk({"content": "a"}))[6:],
        b"event: chunk\n" + sent(chunk({"content": "a"})),
        b"event: thread.run\n" + sent(chunk({"content": "a"})),
        b"unknown: x\n" + sent(chunk({"content": "a"})),
        sent(chunk({"content": "a"})) + b": comment\n" + sent(chunk({"content": "b"})),
        b'data: {"choices":\ndata: []}\n\n',
        b"data: \n\n",
        b"data\n\n",
        b"data: {\n\n",
        b"data: nothing\n\n",
        b"\xef\xbb\xbf" + sent(chunk({"content": "a"})),
        b'data: {"choices": [{"index": 0, "delta": {"content": "\xff"}}]}\n\n',
        b'data: {"choices": [{"index": 0, "delta": {"content": "\\ud800"}}]}\n\n',
        b'data: {"choices": [{"index": 0, "delta": {"content": "a\x01b"}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": "a"}, "logprobs": {"content": [{"logprob": NaN}]}}]}\n\n',
        b'data: {"choices": [{"index": -0, "delta": {"content": "a", "content": "b"}}], "created": 1e400}\n\n',
        b'data: {"created": 123456789012345678901234567890, "choices": []}\n\n',
        b'data: {"choices": [], "deep": ' + b"[" * 5_000 + b"]" * 5_000 + b"}\n\n",
        b"data: [DONE]\n\n" + sent(chunk({"content": "never"})),
        b"data: [DONE] and more\n\n",
        b"data: [DONE]\r\n\r\n",
        sent(chunk({"content": "x" * 300_000})),
    ],
    ids=lambda odd: repr(odd[:50]),
)
# Uncut, the recorded streams are read as well.
@pytest.mark.parametrize("length", [11, further(1_000_000)])
async def test_lines_of_any_form_are_read_equally(odd: bytes, length: int) -> None:
    whole = sent(chunk({"content": "before"})) + odd + sent(chunk({"content": "after"})) + DONE
    length = max(length, len(whole) // 2_000)
    chunks, _ = await check_equal("completions", cut(whole, length))
    assert chunks[0][0] == "before"


@pytest.mark.parametrize("api", ["completions", "responses"])
@pytest.mark.parametrize(
    "then_every_s", [(b": never", 60), (b": comment\n\n", 0.1), (b"x", 0.1)], ids=["nothing", "comments", "a line"]
)
@pytest.mark.parametrize("events", [0, 3])
async def test_a_silent_stream_fails_equally(api: str, then_every_s: tuple[bytes, float], events: int) -> None:
    """What brings no event breaks no silence, and the wait for the first event is one too."""
    packets = [event + b"\n\n" for event in RECORDED[api].split(b"\n\n")[:events]]
    async with recorded_server(packets, then_every_s=then_every_s) as url:
        ways = [outcome(model(api, url, fast=fast, stream_chunk_timeout=0.5)) for fast in (False, True)]
        ordinary, fast = await asyncio.gather(*ways)
    assert repr(fast) == repr(ordinary)
    assert fast[1] is not None and fast[1][0] is StreamChunkTimeoutError


async def test_a_stream_may_last_longer_than_its_silences() -> None:
    async with recorded_server([], then_every_s=(sent(chunk({"content": "a"})), 0.05)) as url:
        built = model("completions", url, fast=True, stream_chunk_timeout=0.5)
        began_s, chunks = time.monotonic(), 0
        stream = built._astream([HumanMessage("?")])
        async for _ in stream:
            chunks += 1
            if time.monotonic() > began_s + 1:
                break
        await stream.aclose()  # type: ignore[attr-defined]
    assert chunks > 5


@pytest.mark.parametrize("api", RECORDED)
def test_the_faster_way_is_taken(api: str) -> None:
    """The packages' own way makes each event by their function `construct_type`."""
    constructed: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "construct_type":
            constructed.append(frame.f_code.co_filename)

    async def read(*, fast: bool) -> None:
        async with recorded_server([RECORDED[api]]) as url:
            await outcome(model(api, url, fast=fast))

    # The check is over after the first.
    for fast, expected in ((True, None), (True, 0), (False, len(RECORDED[api].split(b"data: {")) - 2)):
        constructed.clear()
        # Around the loop, as a profile that is set within a coroutine ends with its first await.
        sys.setprofile(note)
        try:
            asyncio.run(read(fast=fast))
        finally:
            sys.setprofile(None)
        assert expected is None or (len(constructed) == 0 if expected == 0 else len(constructed) >= expected)


async def test_clients_that_authors_hold_get_the_packages_own_objects() -> None:
    async with recorded_server([RECORDED["completions"]]) as url:
        client = model("completions", url, fast=True).root_async_client  # type: ignore[attr-defined]
        stream = await client.chat.completions.create(model="m", messages=[], stream=True)
        assert all([type(chunk) is ChatCompletionChunk async for chunk in stream])


async def test_a_setting_leaves_the_packages_own_way() -> None:
    kept = model("completions", "http://127.0.0.1:9", fast=False).root_async_client  # type: ignore[attr-defined]
    assert type(kept) is AsyncOpenAI
    fast = model("completions", "http://127.0.0.1:9", fast=True).root_async_client  # type: ignore[attr-defined]
    assert type(fast) is not AsyncOpenAI and isinstance(fast, AsyncOpenAI)


class _OtherChunk(ChatCompletionChunk):
    """As a release may change it: a field that LangChain reads has another form."""

    @model_validator(mode="after")
    def reverse(self) -> Self:
        for choice in self.choices:
            choice.delta.content = (choice.delta.content or "")[::-1]
        return self


@pytest.mark.parametrize("changed", [_OtherChunk, 7], ids=["otherwise", "not at all"])
async def test_a_release_that_is_read_otherwise_keeps_the_packages_own_way_and_is_logged_once(
    changed: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ExactEvents, "read", lambda self, data, cast_to: changed.model_validate(data))
    fast_streams._passes.cache_clear()
    try:
        for _ in range(2):
            built: Any = model("completions", "http://127.0.0.1:9", fast=True)
            assert type(built.root_async_client) is AsyncOpenAI
        told = [record for record in caplog.records if record.name == fast_streams.__name__]
        assert [record.message for record in told] == ["provider's streams are read in the ordinary way"]
        assert told[0].api == "completions"  # type: ignore[attr-defined]
    finally:
        fast_streams._passes.cache_clear()


async def test_chunks_share_nothing() -> None:
    recorded = sent(*(chunk({"content": text}) for text in ("a", "b", "c"))) + DONE
    async with recorded_server([recorded]) as url:
        texts = []
        async for each in model("completions", url, fast=True)._astream([HumanMessage("?")]):
            texts.append(each.text)
            assert each.message.response_metadata == {"model_provider": "openai"}
            each.message.response_metadata["of"] = each.message.additional_kwargs["of"] = texts
            assert each.message.additional_kwargs == {"of": texts}
            each.message.tool_calls.append({})  # type: ignore[attr-defined]
            assert len(each.message.tool_calls) == 1  # type: ignore[attr-defined]
    assert texts == ["a", "b", "c"]
