"""Spans of the calls of models and of tools, after OpenTelemetry's GenAI conventions; what was said only if asked for.

https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.errors import GraphBubbleUp

from agentic_backend.errors import OTHER
from agentic_backend.kpi.groups.models import provider_named
from agentic_backend.protocol.messages import Channel, Role
from agentic_backend.protocol.parts import text_of
from agentic_backend.stores.records import MessageRecord
from agentic_backend.streaming.content.conversion import cached_input_of, finish_reason_of, model_of, usage_of
from agentic_backend.tracing.spans import (
    CLIENT,
    INTERNAL,
    LONGEST_ATTRIBUTE,
    OpenSpan,
    content,
    error_type,
    opened,
    records_content,
)

TOOL_ERROR = "tool_error"
_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
# The newest messages that a span shows.
_MOST_MESSAGES = 50
_LONGEST_TEXT = 4_096


def chat_span(model: str, metadata: Mapping[str, Any], messages: Sequence[BaseMessage]) -> OpenSpan | None:
    """Begin the span of a model's call; None if nothing records it."""
    span = opened(
        f"chat {model}",
        CLIENT,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_named(str(metadata.get("ls_provider") or "")),
            "gen_ai.request.model": model,
            "gen_ai.request.temperature": _number(metadata.get("ls_temperature")),
            "gen_ai.request.max_tokens": _number(metadata.get("ls_max_tokens")),
        },
    )
    if span is not None and records_content():
        span.note({"gen_ai.input.messages": _told(messages)})
    return span


def end_chat(span: OpenSpan | None, message: AIMessage | None) -> None:
    """End the span of a call that has ended with this message, if it is known."""
    if span is None:
        return
    if message is not None:
        usage = usage_of(message)
        span.note(
            {
                "gen_ai.response.model": model_of(message),
                "gen_ai.response.finish_reasons": (str(finish_reason_of(message)),),
                "gen_ai.usage.input_tokens": usage.input_tokens if usage is not None else None,
                "gen_ai.usage.output_tokens": usage.output_tokens if usage is not None else None,
                "gen_ai.usage.cache_read.input_tokens": cached_input_of(message) if usage is not None else None,
            }
        )
        if records_content():
            span.note({"gen_ai.output.messages": _told([message])})
    span.end()


def fail_span(span: OpenSpan | None, error: str) -> None:
    """End the span of a call that has failed; `error` is one of a fixed set of names."""
    if span is not None:
        span.fail(error)
        span.end()


def tool_span(name: str, call_id: str | None, arguments: str) -> OpenSpan | None:
    """Begin the span of a tool's run; None if nothing records it."""
    span = opened(
        f"execute_tool {name}",
        INTERNAL,
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.type": "function",
        },
    )
    if span is not None and records_content():
        span.note({"gen_ai.tool.call.arguments": content(arguments)})
    return span


def end_tool(span: OpenSpan | None, output: object) -> None:
    if span is None:
        return
    if isinstance(output, ToolMessage) and output.status == "error":
        span.fail(TOOL_ERROR)
    if records_content():
        span.note({"gen_ai.tool.call.result": content(output.text if isinstance(output, ToolMessage) else str(output))})
    span.end()


def fail_tool(span: OpenSpan | None, error: BaseException) -> None:
    if span is None:
        return
    # A graph that pauses for a person leaves its tool so.
    if not isinstance(error, GraphBubbleUp):
        named = error_type(error)
        span.fail(TOOL_ERROR if named == OTHER else named)
    span.end()


def note_said(span: OpenSpan, opening: MessageRecord, stored: Sequence[MessageRecord]) -> None:
    """Note on the span of an exchange its question and its answer, as modules have left them.

    Not those that people and models are given in different words: each has what is kept from the other.
    """
    finals = [message for message in stored if message.role is Role.ASSISTANT and message.channel is Channel.FINAL]
    questions = [HumanMessage(text_of(opening.parts))] if not opening.model_parts else []
    answers = [AIMessage(text_of(message.parts)) for message in finals if not message.model_parts]
    span.note({"gen_ai.input.messages": _told(questions), "gen_ai.output.messages": _told(answers)})


def _told(messages: Sequence[BaseMessage]) -> str:
    """The newest messages as the convention's JSON, each text shortened, as many as a span holds."""
    told: list[str] = []
    # Two brackets, and a comma before each message but the first.
    size = 1
    for message in reversed(messages[-_MOST_MESSAGES:]):
        parts: list[dict[str, Any]] = [{"type": "text", "content": message.text[:_LONGEST_TEXT]}]
        if isinstance(message, AIMessage):
            parts += [{"type": "tool_call", "id": call["id"], "name": call["name"]} for call in message.tool_calls]
        encoded = _json({"role": _ROLES.get(message.type, message.type), "parts": parts})
        size += len(encoded) + 1
        if size > LONGEST_ATTRIBUTE:
            break
        told.append(encoded)
    return f"[{','.join(reversed(told))}]"


def _json(value: object) -> str:
    # Python's, because orjson takes no lone surrogates; the span replaces them.
    return json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))


def _number(value: object) -> float | int | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
