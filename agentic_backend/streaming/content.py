"""Converts LangChain content to protocol values, and back. Pure functions."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import TypeAdapter, ValidationError

from agentic_backend.agents.provider_responses import standard_blocks
from agentic_backend.protocol.messages import Channel, FinishReason, Role, TokenUsage
from agentic_backend.protocol.parts import (
    ImageUrlPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    text_of,
)
from agentic_backend.stores.records import MessageRecord

_FINISH_REASONS = {
    "stop": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "completed": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "max_output_tokens": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "tool_use": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
}

_PART: TypeAdapter[Part] = TypeAdapter(Part)

# An image is stored within its message, which is one document of the store.
_LONGEST_URL = 1_500_000

_MOST_TOKENS = 1_000_000_000

# JSON parsers fail at a depth of about 200.
_DEEPEST = 100

_LONE_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """`text` without lone surrogates, which no UTF-8 frame and no store can hold."""
    return text if text.isascii() else _LONE_SURROGATES.sub("\ufffd", text)


def delta_of(chunk: AIMessage) -> tuple[str, str]:
    """The new (thought, text) of a chunk."""
    content = chunk.content
    if isinstance(content, str):
        thought = chunk.additional_kwargs.get("reasoning_content") if chunk.additional_kwargs else None
        return thought if isinstance(thought, str) else "", content
    thoughts, texts = [], []
    for block in _blocks_of(chunk):
        if block.get("type") == "text":
            texts.append(_text(block.get("text")))
        elif block.get("type") == "reasoning":
            thoughts.append(_text(block.get("reasoning")))
    return "".join(thoughts), "".join(texts)


def parts_of(message: AIMessage) -> list[Part]:
    """The text and the images of a model message."""
    text = clean(delta_of(message)[1])
    parts: list[Part] = [TextPart(text=text)] if text else []
    return parts + [ImageUrlPart(url=url) for block in _images_of(message) if (url := clean(_text(block.get("url"))))]


def _images_of(message: BaseMessage) -> list[Mapping[str, Any]]:
    if isinstance(message.content, str):
        return []
    return [block for block in _blocks_of(message) if block.get("type") == "image"]


def _image_url(block: Mapping[str, Any]) -> str:
    """The URL of an image; an image that came as data gets a `data:` URL."""
    if data := _text(block.get("base64")):
        return clean(f"data:{_text(block.get('mime_type')) or 'image/png'};base64,{data}")
    return clean(_text(block.get("url")))


def _blocks_of(message: BaseMessage) -> list[Mapping[str, Any]]:
    """The content in LangChain's standard blocks or, if LangChain can't read the provider's content, unchanged."""
    blocks: Sequence[Any] | None = standard_blocks(message)
    if blocks is None:
        blocks = message.content
    return [block for block in blocks if isinstance(block, Mapping)]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def as_chunk(message: AIMessage) -> AIMessageChunk:
    """A complete message as the only chunk of its stream."""
    return AIMessageChunk(
        content=message.content,
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        id=message.id,
        chunk_position="last",
    )


def calls_of(message: AIMessage) -> list[ToolCallPart]:
    """The calls of a model message; invalid JSON arguments are kept as text, so that clients can show the call."""
    calls = [
        ToolCallPart(call_id=clean(call["id"] or ""), name=clean(call["name"]), args=plain(call["args"]))
        for call in message.tool_calls
    ]
    calls += [
        ToolCallPart(
            call_id=clean(call["id"]), name=clean(call["name"] or ""), args={"_invalid": clean(call["args"] or "")}
        )
        for call in message.invalid_tool_calls
        if call["id"]
    ]
    return calls


def result_of(message: ToolMessage, latency_ms: int | None) -> ToolResultPart:
    content = message.content
    text = content if isinstance(content, str) else _joined(content)
    return ToolResultPart(
        call_id=clean(message.tool_call_id), ok=message.status != "error", latency_ms=latency_ms, content=clean(text)
    )


def shown_beside(message: ToolMessage) -> list[Part]:
    """The parts beside the text of a tool's result: the `parts` of its artifact or, without these, its images.

    Images that are too large for the store are left out.
    """
    artifact = message.artifact
    if not isinstance(artifact, Mapping) or not isinstance(artifact.get("parts"), list):
        urls = map(_image_url, _images_of(message))
        return [ImageUrlPart(url=url) for url in urls if url and len(url) <= _LONGEST_URL]
    parts: list[Part] = []
    for value in artifact["parts"]:
        # A tool's author may have put anything there.
        with contextlib.suppress(ValidationError, RecursionError):
            part = _PART.validate_python(plain(value) if isinstance(value, Mapping) else value)
            if not isinstance(part, ToolCallPart | ToolResultPart):
                parts.append(part)
    return parts


def _joined(blocks: list[str | dict[str, Any]]) -> str:
    """The texts among content blocks; other blocks are named by their type."""
    lines = []
    for block in blocks:
        if isinstance(block, str):
            lines.append(block)
        else:
            lines.append(_text(block.get("text")) or f"[{block.get('type', 'content')}]")
    return "\n".join(lines)


def usage_of(message: AIMessage) -> TokenUsage | None:
    usage = message.usage_metadata
    if usage is None:
        return None
    return TokenUsage(
        input_tokens=_tokens(usage["input_tokens"]),
        output_tokens=_tokens(usage["output_tokens"]),
        total_tokens=_tokens(usage["total_tokens"]),
    )


def _tokens(told: object) -> int:
    """A provider's token count, limited to a plausible range, so that sums fit into the integers of every store."""
    return min(max(told, 0), _MOST_TOKENS) if isinstance(told, int) else 0


def finish_reason_of(message: AIMessage) -> FinishReason:
    metadata = message.response_metadata
    reason = metadata.get("finish_reason") or metadata.get("stop_reason") or metadata.get("done_reason")
    if isinstance(incomplete := metadata.get("incomplete_details"), Mapping):
        # OpenAI's Responses API gives a reason only for incomplete responses.
        reason = reason or incomplete.get("reason")
    if reason is None:
        return FinishReason.TOOL_CALLS if message.tool_calls else FinishReason.STOP
    return _FINISH_REASONS.get(str(reason).lower(), FinishReason.OTHER)


def model_of(message: AIMessage) -> str | None:
    metadata = message.response_metadata
    name = metadata.get("model_name") or metadata.get("model")
    return clean(str(name)) if name else None


def agent_of(message: AIMessage) -> dict[str, Any]:
    """The name of the agent that speaks within the graph, if it has one, as the extras of its rows."""
    return {"agent": clean(message.name)} if message.name else {}


def plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """`value` as JSON that every store and client can read.

    A type that JSON lacks becomes its name, an integer beyond 64 bits its digits. A value that can't be encoded (for
    example because it contains itself) or is nested too deeply becomes `{"_unreadable": …}`.
    """
    try:
        decoded = orjson.loads(orjson.dumps(_encodable(value), default=_type_name, option=orjson.OPT_NON_STR_KEYS))
    except (orjson.JSONEncodeError, RecursionError, ValueError):
        return {"_unreadable": type(value).__name__}
    if _depth(decoded) > _DEEPEST:
        return {"_unreadable": type(value).__name__}
    return decoded if isinstance(decoded, dict) else {"value": decoded}


def _encodable(value: Any) -> Any:
    """`value` with texts and integers that JSON encoders accept."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(item) for item in value]
    return str(value) if isinstance(value, int) and value.bit_length() > 63 else value


def _depth(value: Any) -> int:
    """The nesting depth of objects and lists."""
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)


def _type_name(value: object) -> str:
    return f"<{type(value).__name__}>"


def to_langchain(message: MessageRecord) -> BaseMessage:
    """A stored message as a LangChain message. By its id the transcoder knows that it isn't new."""
    text, message_id = text_of(message.parts), f"{message.exchange_id}:{message.rank}"
    if message.role is Role.USER:
        return HumanMessage(text, id=message_id)
    if message.role is Role.SYSTEM:
        return SystemMessage(text, id=message_id)
    result = next((part for part in message.parts if isinstance(part, ToolResultPart)), None)
    if message.channel is Channel.TOOL_RESULT and result is not None:
        status = "error" if result.ok is False else "success"
        return ToolMessage(result.content, tool_call_id=result.call_id, status=status, id=message_id)
    calls = [
        {"name": part.name, "args": part.args, "id": part.call_id}
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]
    return AIMessage(text, tool_calls=calls, name=message.metadata.extras.get("agent"), id=message_id)
