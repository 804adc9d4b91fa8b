"""LangChain's content as protocol values, in the forms that providers really send, and back."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import add_ai_message_chunks

from agentic_backend.protocol.messages import Channel, FinishReason, MessageMetadata, Role, utc_now
from agentic_backend.protocol.parts import (
    CodePart,
    ImageUrlPart,
    LinkPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from agentic_backend.stores.records import MessageRecord
from agentic_backend.streaming.content.conversion import (
    as_chunk,
    calls_of,
    delta_of,
    finish_reason_of,
    model_of,
    parts_of,
    plain,
    result_of,
    shown_beside,
    to_langchain,
    usage_of,
)

PROVIDERS: dict[str, list[Any]] = {
    "openai": [
        [{"type": "reasoning", "summary": [{"index": 0, "type": "summary_text", "text": "I think "}], "index": 0}],
        [{"type": "reasoning", "summary": [{"index": 0, "type": "summary_text", "text": "hard"}], "index": 0}],
        [{"type": "text", "text": "Hel", "index": 1}],
        [{"type": "text", "text": "lo", "index": 1}],
        [{"type": "text", "annotations": [{"type": "citation", "url": "https://example.org"}], "index": 1}],
        [{"type": "text", "text": "", "id": "msg_1", "index": 1}],
        [{"type": "function_call", "name": "a", "arguments": "{}", "call_id": "c1", "id": "f1", "index": 2}],
        [],
    ],
    "anthropic": [
        [{"type": "thinking", "thinking": "I think ", "index": 0}],
        [{"type": "thinking", "thinking": "hard", "index": 0}],
        [{"type": "thinking", "signature": "signed", "index": 0}],
        [{"type": "text", "text": "Hel", "index": 1}],
        [{"type": "text", "text": "lo", "index": 1}],
        [{"type": "tool_use", "id": "c1", "name": "a", "input": {}, "index": 2}],
        [{"type": "input_json_delta", "partial_json": "{}", "index": 2}],
        "",
    ],
    "google_genai": [
        [{"type": "thinking", "thinking": "I think "}],
        [{"type": "thinking", "thinking": "hard"}],
        "Hel",
        "lo",
    ],
    "unknown": [
        [{"type": "reasoning", "reasoning": "I think ", "index": 0}],
        [{"type": "reasoning", "reasoning": "hard", "index": 0}],
        [{"type": "text", "text": "Hel", "index": 1}],
        [{"type": "text", "text": "lo", "index": 1}],
        [{"type": "what", "ever": 1, "index": 2}],
    ],
}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_deltas_of_a_providers_chunks_are_its_message(provider: str) -> None:
    metadata = {"model_provider": provider}
    chunks = [AIMessageChunk(content, response_metadata=metadata) for content in PROVIDERS[provider]]
    deltas = [delta_of(chunk) for chunk in chunks]
    assert "".join(thought for thought, _ in deltas) == "I think hard"
    assert "".join(text for _, text in deltas) == "Hello"
    whole = add_ai_message_chunks(*chunks)
    assert delta_of(whole) == ("I think hard", "Hello")
    assert parts_of(whole) == [TextPart(text="Hello")]


@pytest.mark.parametrize(
    ("message", "thought", "text"),
    [
        (AIMessage("Hi"), "", "Hi"),
        (AIMessage(""), "", ""),
        (AIMessage([]), "", ""),
        (AIMessage("Hi", additional_kwargs={"reasoning_content": "Hm"}), "Hm", "Hi"),
        (AIMessage("Hi", additional_kwargs={"reasoning_content": None}), "", "Hi"),
        (AIMessage("Hi", additional_kwargs={"reasoning_content": {"a": 1}}), "", "Hi"),
        (AIMessage(["Hi ", {"type": "text", "text": "there"}]), "", "Hi there"),
        (AIMessage([{"type": "text", "text": None}, {"type": "text"}, {"type": "reasoning"}]), "", ""),
        (AIMessage([{"type": "non_standard"}, {"type": "text", "text": "Hi"}]), "", "Hi"),
    ],
)
def test_text_and_thought_are_told_apart(message: AIMessage, thought: str, text: str) -> None:
    assert delta_of(message) == (thought, text)
    assert delta_of(as_chunk(message)) == (thought, text)


def test_images_are_shown_by_their_address_or_with_their_data() -> None:
    message = AIMessage(
        [
            {"type": "image", "url": "https://example.org/a.png"},
            {"type": "text", "text": "See"},
            {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
            {"type": "image", "url": 7},
        ]
    )
    assert parts_of(message) == [
        TextPart(text="See"),
        ImageUrlPart(url="https://example.org/a.png"),
        ImageUrlPart(url="data:image/png;base64,AAAA"),
    ]


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (ToolMessage("text", tool_call_id="c"), []),
        (ToolMessage("text", artifact=7, tool_call_id="c"), []),
        (ToolMessage("text", artifact={"parts": "none"}, tool_call_id="c"), []),
        (
            ToolMessage([{"type": "image", "base64": "AAAA", "mime_type": "image/gif"}], tool_call_id="c"),
            [ImageUrlPart(url="data:image/gif;base64,AAAA")],
        ),
        (
            ToolMessage([{"type": "image", "url": "https://example.org/a.png"}], tool_call_id="c"),
            [ImageUrlPart(url="https://example.org/a.png")],
        ),
        (ToolMessage([{"type": "image", "base64": "A" * 2_000_000}], tool_call_id="c"), []),
        (
            ToolMessage(
                [{"type": "image", "base64": "AAAA"}],
                artifact={
                    "parts": [
                        {"type": "code", "language": "json", "code": "{\ud800}"},
                        {"type": "link", "kind": "related", "title": "A"},
                        {"type": "link", "kind": "nonsense"},
                        {"type": "tool_result", "call_id": "other", "content": "forged"},
                        {"type": "tool_call", "call_id": "other", "name": "x", "args": {}},
                        "text",
                        None,
                    ]
                },
                tool_call_id="c",
            ),
            [CodePart(language="json", code="{\ufffd}"), LinkPart(kind="related", title="A")],
        ),
    ],
)
def test_a_result_shows_the_parts_of_its_artifact_or_else_its_images(message: ToolMessage, shown: list[Part]) -> None:
    assert shown_beside(message) == shown


def test_calls_keep_their_ids_names_and_arguments() -> None:
    message = AIMessage(
        "",
        tool_calls=[{"id": "c1", "name": "a", "args": {"x": [1, None]}}, {"id": None, "name": "b", "args": {}}],
        invalid_tool_calls=[
            {"id": "c3", "name": None, "args": "{oops", "error": None},
            {"id": None, "name": "d", "args": "{oops", "error": None},
        ],
    )
    assert calls_of(message) == [
        ToolCallPart(call_id="c1", name="a", args={"x": [1, None]}),
        ToolCallPart(call_id="", name="b", args={}),
        ToolCallPart(call_id="c3", name="", args={"_invalid": "{oops"}),
    ]


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("Hi", "Hi"),
        ("", ""),
        (["Hi", {"type": "text", "text": "there"}], "Hi\nthere"),
        ([{"type": "image", "url": "https://example.org/a.png"}, {"other": 1}], "[image]\n[content]"),
    ],
)
def test_a_result_is_shown_as_text(content: Any, shown: str) -> None:
    result = result_of(ToolMessage(content, tool_call_id="c1"), 5)
    assert result == ToolResultPart(call_id="c1", ok=True, latency_ms=5, content=shown)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({}, FinishReason.STOP),
        ({"finish_reason": "stop"}, FinishReason.STOP),
        ({"finish_reason": "STOP"}, FinishReason.STOP),
        ({"stop_reason": "end_turn"}, FinishReason.STOP),
        ({"stop_reason": "stop_sequence"}, FinishReason.STOP),
        ({"done_reason": "stop"}, FinishReason.STOP),
        ({"status": "completed"}, FinishReason.STOP),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, FinishReason.LENGTH),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, FinishReason.CONTENT_FILTER),
        ({"status": "completed", "incomplete_details": None}, FinishReason.STOP),
        ({"finish_reason": "length"}, FinishReason.LENGTH),
        ({"finish_reason": "MAX_TOKENS"}, FinishReason.LENGTH),
        ({"finish_reason": "tool_calls"}, FinishReason.TOOL_CALLS),
        ({"stop_reason": "tool_use"}, FinishReason.TOOL_CALLS),
        ({"finish_reason": "content_filter"}, FinishReason.CONTENT_FILTER),
        ({"finish_reason": "SAFETY"}, FinishReason.CONTENT_FILTER),
        ({"stop_reason": "refusal"}, FinishReason.CONTENT_FILTER),
        ({"finish_reason": "MALFORMED_FUNCTION_CALL"}, FinishReason.OTHER),
        ({"finish_reason": 7}, FinishReason.OTHER),
        ({"model_provider": "openai"}, FinishReason.OTHER),
        ({"model_name": "large"}, FinishReason.OTHER),
        ({"model_name": "large", "status": "completed"}, FinishReason.STOP),
    ],
)
def test_providers_finish_reasons(metadata: dict[str, Any], reason: FinishReason) -> None:
    assert finish_reason_of(AIMessage("", response_metadata=metadata)) is reason


def test_a_message_with_calls_and_no_reason_ended_for_its_calls() -> None:
    assert finish_reason_of(AIMessage("", tool_calls=[{"id": "c", "name": "a", "args": {}}])) is FinishReason.TOOL_CALLS


@pytest.mark.parametrize(
    ("metadata", "name"),
    [({"model_name": "a"}, "a"), ({"model": "b"}, "b"), ({"model_name": "a", "model": "b"}, "a"), ({}, None)],
)
def test_the_model_is_told_by_name(metadata: dict[str, str], name: str | None) -> None:
    assert model_of(AIMessage("", response_metadata=metadata)) == name


def test_usage_is_told_where_it_is_known() -> None:
    assert usage_of(AIMessage("")) is None
    usage = usage_of(AIMessage("", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}))
    assert usage is not None and usage.model_dump() == {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}


class Colour(StrEnum):
    RED = "red"


@dataclass
class Point:
    x: int


class Odd:
    pass


LOOP: list[Any] = []
LOOP += [LOOP, LOOP]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({}, {}),
        ({"a": [1, 2.5, True, None, "x", {"b": []}]}, {"a": [1, 2.5, True, None, "x", {"b": []}]}),
        ({7: 2, None: 3, True: 4}, {"7": 2, "null": 3, "true": 4}),
        ({"n": 2**63 - 1, "m": -(2**63) + 1}, {"n": 2**63 - 1, "m": -(2**63) + 1}),
        ({"n": 2**70, "m": [-(2**70)]}, {"n": str(2**70), "m": [str(-(2**70))]}),
        ({"n": float("nan"), "m": float("inf")}, {"n": "NaN", "m": "Infinity"}),
        ({"\ud800": "\udfff"}, {"\ufffd": "\ufffd"}),
        ({"p": Point(1), "c": Colour.RED, "t": (1, 2)}, {"p": {"x": 1}, "c": "red", "t": [1, 2]}),
        ({"o": Odd(), "b": b"x", "s": {1}}, {"o": "<Odd>", "b": "<bytes>", "s": "<set>"}),
        ({"at": datetime(2026, 1, 2, tzinfo=UTC)}, {"at": "2026-01-02T00:00:00+00:00"}),
        ({"loop": LOOP}, {"_unreadable": "dict"}),
        ({"n": 10**5000}, {"_unreadable": "dict"}),
        ({("a", "b"): 1}, {"_unreadable": "dict"}),
        ([1], {"value": [1]}),
    ],
)
def test_any_value_becomes_json(value: Any, shown: dict[str, Any]) -> None:
    assert plain(value) == shown
    json.dumps(plain(value)).encode()


def stored(role: Role, channel: Channel, parts: Sequence[Part], **metadata: Any) -> MessageRecord:
    return MessageRecord(
        role=role,
        channel=channel,
        parts=list(parts),
        metadata=MessageMetadata(**metadata),
        session_id="s",
        exchange_id="e",
        rank=3,
        timestamp=utc_now(),
    )


@pytest.mark.parametrize(
    ("message", "restored"),
    [
        (stored(Role.USER, Channel.FINAL, [TextPart(text="Hi")]), HumanMessage("Hi", id="e:3")),
        (stored(Role.SYSTEM, Channel.SYSTEM_NOTE, [TextPart(text="Hi")]), SystemMessage("Hi", id="e:3")),
        (
            stored(Role.ASSISTANT, Channel.FINAL, [TextPart(text="Hi"), CodePart(code="x = 1"), ImageUrlPart(url="u")]),
            AIMessage("Hi\nx = 1", id="e:3"),
        ),
        (
            stored(Role.ASSISTANT, Channel.TOOL_CALL, [ToolCallPart(call_id="c1", name="a", args={"x": 1})]),
            AIMessage("", id="e:3", tool_calls=[{"id": "c1", "name": "a", "args": {"x": 1}}]),
        ),
        (
            stored(Role.TOOL, Channel.TOOL_RESULT, [ToolResultPart(call_id="c1", ok=False, content="no")]),
            ToolMessage("no", tool_call_id="c1", status="error", id="e:3"),
        ),
        (
            stored(Role.TOOL, Channel.TOOL_RESULT, [ToolResultPart(call_id="c1", content="yes")]),
            ToolMessage("yes", tool_call_id="c1", id="e:3"),
        ),
    ],
)
def test_stored_messages_come_back_as_langchains(message: MessageRecord, restored: Any) -> None:
    assert to_langchain(message) == restored
