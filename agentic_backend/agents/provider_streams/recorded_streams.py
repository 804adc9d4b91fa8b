"""Short recorded streams of providers, as they come over HTTP: the faster way is tried on them before it is used."""

import json
from collections.abc import Iterable
from typing import Any

_CHUNK = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1_754_000_000,
    "model": "gpt-4o-2024-08-06",
    "service_tier": "default",
    "system_fingerprint": "fp_1",
}


def completions() -> bytes:
    """Of OpenAI's Chat Completions: text, reasoning as other providers add it, two tool calls, a refusal, usage."""
    calls = [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"of": "Köln"}'}},
        {"index": 1, "id": "call_2", "type": "function", "function": {"name": "note", "arguments": "{}"}},
    ]
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": "", "refusal": None},
        {"content": None, "reasoning_content": "Well"},
        {"content": "Grüße, "},
        {"content": "world"},
        {"refusal": "no"},
        *({"tool_calls": [call]} for call in calls),
    ]
    chunks = [_chunk(delta) for delta in deltas]
    chunks.append(_chunk({"content": "!"}, logprobs={"content": [{"token": "!", "logprob": -0.5, "top_logprobs": []}]}))
    chunks.append(_chunk({}, finish_reason="tool_calls"))
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    chunks.append({**_CHUNK, "choices": [], "usage": {**usage, "completion_tokens_details": {"reasoning_tokens": 1}}})
    return b": comment\n\n" + _sent(chunks) + b"data: [DONE]\n\n"


def _chunk(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, **more}
    return {**_CHUNK, "choices": [choice], "usage": None, "obfuscation": "x"}


def responses() -> bytes:
    """Of OpenAI's Responses: reasoning, a tool call, text, usage."""
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_754_000_000,
        "status": "in_progress",
        "model": "gpt-5",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    call = {"id": "fc_1", "type": "function_call", "arguments": "", "call_id": "call_1", "name": "look_up"}
    message = {"id": "msg_1", "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
    place = {"item_id": "msg_1", "output_index": 2, "content_index": 0}
    usage = {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 7,
    }
    part = {"type": "output_text", "text": "Grüße", "annotations": [], "logprobs": []}
    done = {**response, "status": "completed", "usage": usage}
    done["output"] = [{**message, "status": "completed", "content": [part]}]
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"id": "rs_1", "type": "reasoning", "summary": []},
        },
        {
            "type": "response.reasoning_summary_text.delta",
            "item_id": "rs_1",
            "output_index": 0,
            "summary_index": 0,
            "delta": "Well",
        },
        {"type": "response.output_item.added", "output_index": 1, "item": call},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1, "delta": "{}"},
        {"type": "response.output_item.added", "output_index": 2, "item": message},
        {"type": "response.output_text.delta", **place, "delta": "Grüße", "logprobs": [], "obfuscation": "x"},
        {"type": "response.output_text.done", **place, "text": "Grüße", "logprobs": []},
        {"type": "response.completed", "response": done},
    ]
    return _named({**event, "sequence_number": number} for number, event in enumerate(events))


def messages() -> bytes:
    """Of Anthropic's Messages: reasoning, text, a tool call, usage."""
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [{"type": "thinking_delta", "thinking": "Well"}, {"type": "signature_delta", "signature": "s"}],
        ),
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Grüße"}]),
        (
            {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {}},
            [{"type": "input_json_delta", "partial_json": "{}"}],
        ),
    ]
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": "tool_use", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 9}})
    return _named([*events, {"type": "message_stop"}])


def _named(events: Iterable[dict[str, Any]]) -> bytes:
    """The events as their providers send them, each with its name."""
    return b"".join(f"event: {event['type']}\n".encode() + _sent([event]) for event in events)


def _sent(events: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode() for event in events)
