"""What the bench's provider answers, as bytes that are made once: chat completions as OpenAI's API streams them.

One server-sent event is one chunk of HTTP. What arrives in one packet is a tick: mostly one event, sometimes several
or none, and sometimes the half of one, as networks cut them.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from scripted_graph import TOKEN, TOKENS

TOOL_CALLS, ARGUMENT_PIECES = 3, 16
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\nx-request-id: req_0123456789abcdef\r\n"
_STREAM_HEAD = _HEAD % b"text/event-stream; charset=utf-8" + b"transfer-encoding: chunked\r\n\r\n"
_USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": TOKENS,
    "total_tokens": TOKENS + 20,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0},
}
# How many events each tick has, again and again; on average one.
_EVENTS_OF_TICKS = (1, 1, 1, 2, 0, 1, 1, 3, 0, 0)
# Each such tick holds back the second half of its last event until the next one.
_CUT_EVERY = 7


def _text() -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "", "refusal": None}
    yield from [{"content": TOKEN}] * TOKENS


def _reasoning() -> Iterator[dict[str, Any]]:
    """As DeepSeek and servers of open models do it."""
    yield {"role": "assistant", "content": None, "reasoning_content": ""}
    yield from [{"content": None, "reasoning_content": TOKEN}] * TOKENS
    yield from [{"content": TOKEN, "reasoning_content": None}] * TOKENS


def _tool_calls() -> Iterator[dict[str, Any]]:
    """Parallel calls, one after the other, each with its arguments in pieces."""
    yield {"role": "assistant", "content": None}
    for index in range(TOOL_CALLS):
        function = {"name": "look_up", "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function", "function": function}]}
        for piece in ('{"', "words", '":"', *["abc "] * (ARGUMENT_PIECES - 4), '"}'):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


_DELTAS: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
    "text": _text,
    "reasoning": _reasoning,
    "tools": _tool_calls,
}
KINDS = tuple(_DELTAS)


@cache
def stream(kind: str) -> tuple[bytes, Sequence[bytes]]:
    """What is sent at once, the head and the first event, and what each tick sends after it."""
    first, *events = [b"%x\r\n%b\r\n" % (len(event), event) for event in _events(kind)]
    ticks, taken = [], 0
    while taken < len(events):
        count = _EVENTS_OF_TICKS[len(ticks) % len(_EVENTS_OF_TICKS)]
        ticks.append(b"".join(events[taken : taken + count]))
        taken += count
    for number in range(0, len(ticks) - 1, _CUT_EVERY):
        half = len(ticks[number]) // 2
        ticks[number], ticks[number + 1] = ticks[number][:half], ticks[number][half:] + ticks[number + 1]
    return _STREAM_HEAD + first, [*ticks, b"0\r\n\r\n"]


@cache
def whole(text: str) -> bytes:
    """A completion that is not streamed."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = json.dumps({**_completion("chat.completion"), "choices": [choice], "usage": _USAGE}).encode()
    return _HEAD % b"application/json" + b"content-length: %d\r\n\r\n%b" % (len(body), body)


def _events(kind: str) -> Iterator[bytes]:
    for delta in _DELTAS[kind]():
        yield _event(choices=[_choice(delta, None)], usage=None)
    yield _event(choices=[_choice({}, "tool_calls" if kind == "tools" else "stop")], usage=None)
    yield _event(choices=[], usage=_USAGE)
    yield b"data: [DONE]\n\n"


def _event(**more: Any) -> bytes:
    chunk = {**_completion("chat.completion.chunk"), **more, "obfuscation": "aB3dE6gH9j"}
    return b"data: %b\n\n" % json.dumps(chunk, separators=(",", ":")).encode()


def _choice(delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _completion(form: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-0123456789abcdefghijklmnopqr",
        "object": form,
        "created": 1_790_000_000,
        "model": "gpt-5.4-mini-2026-03-17",
        "service_tier": "default",
        "system_fingerprint": "fp_0123456789",
    }
