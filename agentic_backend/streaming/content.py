"""LangChain content to protocol values, and back. Pure functions."""

import re
from collections.abc import Mapping
from typing import Any

import orjson
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agentic_backend.protocol.messages import Channel, ChatMessage, FinishReason, Role, TokenUsage
from agentic_backend.protocol.parts import (
    ImageUrlPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    text_of,
)

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

_LONE_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """`text` without lone surrogates, which no UTF-8 frame and no store can hold."""
    return text if text.isascii() else _LONE_SURROGATES.sub("\ufffd", text)


def delta_of(chunk: AIMessage) -> tuple[str, str]:
    """The new (thought, text) of a chunk."""
    content = chunk.content
    if isinstance(content, str):
        thought = chunk.additional_kwargs.get("reasoning_content") or "" if chunk.additional_kwargs else ""
        return thought, content
    thoughts, texts = [], []
    for block in chunk.content_blocks:
        if block["type"] == "text":
            texts.append(block.get("text", ""))
        elif block["type"] == "reasoning":
            thoughts.append(block.get("reasoning", ""))
    return "".join(thoughts), "".join(texts)


def parts_of(message: AIMessage) -> list[Part]:
    """What a model message shows beside its thoughts and its calls: text and images."""
    if isinstance(message.content, str):
        return [TextPart(text=clean(message.content))] if message.content else []
    text = clean(delta_of(message)[1])
    parts: list[Part] = [TextPart(text=text)] if text else []
    parts += [
        ImageUrlPart(url=block["url"])
        for block in message.content_blocks
        if block["type"] == "image" and block.get("url")
    ]
    return parts


def calls_of(message: AIMessage) -> list[ToolCallPart]:
    """The calls of a model message; arguments that are no JSON are kept as text, so that the call still has a card."""
    calls = [
        ToolCallPart(call_id=call["id"] or f"call_{index}", name=call["name"], args=plain(call["args"]))
        for index, call in enumerate(message.tool_calls)
    ]
    calls += [
        ToolCallPart(call_id=call["id"], name=call["name"] or "", args={"_invalid": clean(call["args"] or "")})
        for call in message.invalid_tool_calls
        if call["id"]
    ]
    return calls


def result_of(message: ToolMessage, latency_ms: int | None) -> ToolResultPart:
    content = message.content
    text = content if isinstance(content, str) else _joined(content)
    return ToolResultPart(
        call_id=message.tool_call_id, ok=message.status != "error", latency_ms=latency_ms, content=clean(text)
    )


def _joined(blocks: list[str | dict[str, Any]]) -> str:
    """The texts among content blocks; other blocks are named by their type."""
    lines = []
    for block in blocks:
        if isinstance(block, str):
            lines.append(block)
        else:
            lines.append(str(block["text"]) if "text" in block else f"[{block.get('type', 'content')}]")
    return "\n".join(lines)


def usage_of(message: AIMessage) -> TokenUsage | None:
    usage = message.usage_metadata
    if usage is None:
        return None
    return TokenUsage(
        input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"], total_tokens=usage["total_tokens"]
    )


def finish_reason_of(message: AIMessage) -> FinishReason:
    metadata = message.response_metadata
    reason = metadata.get("finish_reason") or metadata.get("stop_reason") or metadata.get("done_reason")
    if reason is None:
        return FinishReason.TOOL_CALLS if message.tool_calls else FinishReason.STOP
    return _FINISH_REASONS.get(str(reason).lower(), FinishReason.OTHER)


def model_of(message: AIMessage) -> str | None:
    metadata = message.response_metadata
    name = metadata.get("model_name") or metadata.get("model")
    return str(name) if name else None


def plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """`value` as plain JSON; what JSON does not know is shown as its type, what is too deep as a text."""
    try:
        encoded = orjson.dumps(value, default=_type_name, option=orjson.OPT_NON_STR_KEYS)
    except (orjson.JSONEncodeError, RecursionError):
        return {"_unreadable": type(value).__name__}
    decoded = orjson.loads(encoded)
    return decoded if isinstance(decoded, dict) else {"value": decoded}


def _type_name(value: object) -> str:
    return f"<{type(value).__name__}>"


def to_langchain(message: ChatMessage) -> BaseMessage:
    """A stored message as LangChain knows it. Its id tells the transcoder that it isn't new."""
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
    return AIMessage(text, tool_calls=calls, id=message_id)
