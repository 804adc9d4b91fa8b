"""Converts LangChain content to protocol values, and back. Pure functions."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import TypeAdapter, ValidationError

from agentic_backend.agents.models.attached_images import image_block
from agentic_backend.agents.models.provider_responses import standard_blocks
from agentic_backend.agents.tools.result_marks import BACKGROUND, FORBIDDEN
from agentic_backend.agents.tools.unfit_calls import INVALID
from agentic_backend.exact_json import DEEPEST, depth_of, shown_number
from agentic_backend.protocol.messages import Channel, FinishReason, Role, TokenUsage
from agentic_backend.protocol.parts import (
    ImageUrlPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    attachment_of,
    text_of,
)
from agentic_backend.stores.records import MessageRecord
from agentic_backend.streaming.content.media import MAX_IMAGES_BYTES, data_bytes, is_media, media_of
from agentic_backend.streaming.content.sources import sources_of
from agentic_backend.text.normal_form import clean

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

LONGEST_TEXT = 2 * 1024 * 1024
"""Characters of a message's text that no model streams: a message is one document of the store."""

LONGEST_RESULT = 1024 * 1024
"""Characters of a tool's result, of a call's arguments, and of the JSON of a structured response."""

# Parts that a tool shows beside its result.
_MOST_PARTS = 64

# What tells in a message's metadata that a provider has answered.
_FROM_PROVIDER = {"model_name", "model", "model_provider"}
_MOST_TOKENS = 1_000_000_000
_LONGEST_MODEL_NAME = 200


def bounded(text: str, most: int = LONGEST_RESULT) -> str:
    """`text` with at most so many characters, and a note of what is cut."""
    left_out = len(text) - most
    return f"{text[:most]}\n[cut: {left_out} more characters left out]" if left_out > 0 else text


def text_in(message: BaseMessage) -> str:
    """The text of a message, as LangChain's `text` is; not a copy, as that is at each access, if it is all content."""
    return message.content if isinstance(message.content, str) else str(message.text)


def delta_of(chunk: AIMessage) -> tuple[str, str]:
    """The new (thought, text) of a chunk; a refusal is a text too."""
    content = chunk.content
    if isinstance(content, str):
        more = chunk.additional_kwargs
        return (_text(more.get("reasoning_content")), content or _text(more.get("refusal"))) if more else ("", content)
    thoughts, texts = [], []
    for block in _blocks_of(chunk):
        if block.get("type") == "text":
            texts.append(_text(block.get("text")))
        elif block.get("type") == "reasoning":
            thoughts.append(_text(block.get("reasoning")))
        else:
            texts.append(_refusal(block))
    return "".join(thoughts), "".join(texts)


def is_only_text(message: AIMessage) -> bool:
    """Whether a message is a chunk with a text and nothing beside it, except an id and metadata of its response."""
    return (
        type(message) is AIMessageChunk
        and type(message.content) is str
        and message.content != ""
        and not message.tool_call_chunks
        and not message.additional_kwargs
        and message.usage_metadata is None
        and message.chunk_position is None
    )


def _refusal(block: Mapping[str, Any]) -> str:
    """What a model says instead of an answer that it refuses, in a block of OpenAI's Responses API."""
    value = block.get("value") if block.get("type") == "non_standard" else block
    return _text(value.get("refusal")) if isinstance(value, Mapping) and value.get("type") == "refusal" else ""


def beside_text(chunk: AIMessage) -> list[Mapping[str, Any]]:
    """The blocks of a chunk that show something beside its text: media, cited sources, calls that the provider runs."""
    content = chunk.content
    if isinstance(content, str) or all(_is_only_text(block) for block in content):
        return []
    return [block for block in _blocks_of(chunk) if is_media(block) or block.get("annotations") or _server_tool(block)]


def _is_only_text(block: str | dict[str, Any]) -> bool:
    if not isinstance(block, Mapping):
        return True
    return block.get("type") in _TEXTS and not block.get("annotations") and not block.get("citations")


# The types of blocks, in any provider's form, that are nothing but text, a thought or a call.
_TEXTS = {"text", "output_text", "thinking", "reasoning", "tool_use", "function_call", "input_json_delta", "refusal"}


def parts_of(message: AIMessage, *, is_streamed: bool = False) -> list[Part]:
    """The text, the images and the files of a model message. Its text names what can't be shown.

    The text of a message that `is_streamed` is not cut: it has been shown, and ModelStream bounds it.
    """
    media = media_of(beside_text(message))
    texts = [delta_of(message)[1], *_spoken(message), *media.notes]
    text = "\n\n".join(filter(None, texts))
    if not is_streamed:
        text = bounded(text, LONGEST_TEXT)
    parts: list[Part] = [TextPart(text=text)] if text else []
    return [*parts, *map(_cleaned, media.parts)]


def _spoken(message: AIMessage) -> list[str]:
    """The transcript and a note of a spoken answer, which OpenAI keeps beside the content."""
    audio = message.additional_kwargs.get("audio")
    if not isinstance(audio, Mapping):
        return []
    size = len(_text(audio.get("data"))) * 3 // 4
    transcript = _text(audio.get("transcript"))
    return ["" if transcript == message.text else transcript, f"[sound of {size} bytes, which can't be played]"]


def _cleaned(part: Part) -> Part:
    return _PART.validate_python(plain(part.model_dump()))


def cited_in(message: AIMessage) -> list[dict[str, Any]]:
    """The sources that a model message cites, numbered (see sources_of)."""
    if isinstance(message.content, str) and "grounding_metadata" not in message.response_metadata:
        return []
    return [plain(source) for source in sources_of(_blocks_of(message))]


def server_tools_of(blocks: Iterable[Mapping[str, Any]]) -> list[str]:
    """The tools that the provider itself has run, each once."""
    return list(dict.fromkeys(filter(None, map(_server_tool, blocks))))


def _server_tool(block: Mapping[str, Any]) -> str:
    is_call = block.get("type") in ("server_tool_call", "server_tool_call_chunk")
    return _text(block.get("name"))[:64] if is_call else ""


def _images_of(message: BaseMessage) -> list[Mapping[str, Any]]:
    if isinstance(message.content, str):
        return []
    return [block for block in _blocks_of(message) if block.get("type") == "image"]


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
        ToolCallPart(call_id=call["id"] or "", name=call["name"], args=_args(call["args"]))
        for call in message.tool_calls
    ]
    calls += [
        ToolCallPart(
            call_id=call["id"],
            name=call["name"] or "",
            args={INVALID: bounded(call["args"] or "")},
        )
        for call in message.invalid_tool_calls
        if call["id"]
    ]
    return calls


def _args(args: Mapping[str, Any]) -> dict[str, Any]:
    told = plain(args)
    size = len(orjson.dumps(told))
    return told if size <= LONGEST_RESULT else {"_cut": f"[cut: {size} bytes of arguments left out]"}


def result_of(message: ToolMessage, latency_ms: int | None) -> ToolResultPart:
    content = message.content
    text = content if isinstance(content, str) else _joined(content)
    return ToolResultPart(
        call_id=message.tool_call_id,
        ok=message.status != "error",
        latency_ms=latency_ms,
        content=bounded(text),
    )


def marks_of(message: ToolMessage) -> dict[str, Any]:
    """What the server has noted about a result, as the extras of its row."""
    return {
        name: message.additional_kwargs[name] for name in (FORBIDDEN, BACKGROUND) if name in message.additional_kwargs
    }


def shown_beside(message: ToolMessage) -> list[Part]:
    """The parts beside the text of a tool's result: the `parts` of its artifact or, without these, its images.

    What is too large or too much for the store is left out.
    """
    artifact = message.artifact
    if not isinstance(artifact, Mapping) or not isinstance(artifact.get("parts"), list):
        return [_cleaned(part) for part in media_of(_images_of(message)).parts]
    parts: list[Part] = []
    room, images = LONGEST_TEXT, MAX_IMAGES_BYTES
    for value in artifact["parts"]:
        # A tool's author may have put anything there.
        with contextlib.suppress(ValidationError, RecursionError):
            part = _PART.validate_python(plain(value) if isinstance(value, Mapping) else value)
            size = len(part.model_dump_json())
            image = data_bytes(part.url) if isinstance(part, ImageUrlPart) else 0
            fits = size <= room and image <= images and len(parts) < _MOST_PARTS
            if fits and not isinstance(part, ToolCallPart | ToolResultPart):
                parts.append(part)
                room, images = room - size, images - image
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
    """The tokens that the provider counted; None if it told none: no call takes 0 tokens."""
    usage = message.usage_metadata
    if usage is None or not any(map(_tokens, (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]))):
        return None
    return TokenUsage(
        input_tokens=_tokens(usage["input_tokens"]),
        output_tokens=_tokens(usage["output_tokens"]),
        total_tokens=_tokens(usage["total_tokens"]),
    )


def cached_input_of(message: AIMessage) -> int:
    """The input tokens that the provider had cached; 0 if it told none."""
    details = message.usage_metadata.get("input_token_details") if message.usage_metadata is not None else None
    return _tokens(details.get("cache_read")) if isinstance(details, Mapping) else 0


def _tokens(told: object) -> int:
    """A provider's token count, limited to a plausible range, so that sums fit into the integers of every store."""
    return min(max(told, 0), _MOST_TOKENS) if isinstance(told, int) else 0


def finish_reason_of(message: AIMessage) -> FinishReason:
    """Why the model ended it; `other` if its provider told no reason, as at the end of a stream that was cut."""
    metadata = message.response_metadata
    reason = metadata.get("finish_reason") or metadata.get("stop_reason") or metadata.get("done_reason")
    if isinstance(incomplete := metadata.get("incomplete_details"), Mapping):
        # OpenAI's Responses API gives a reason only for incomplete responses.
        reason = reason or incomplete.get("reason")
    if _is_refused(message):
        return FinishReason.CONTENT_FILTER
    if reason is None and message.tool_calls:
        return FinishReason.TOOL_CALLS
    if reason is None:
        # What a graph writes itself comes from no provider. The Responses API tells only that it has completed.
        is_complete = metadata.get("status") == "completed" or not _FROM_PROVIDER & metadata.keys()
        return FinishReason.STOP if is_complete else FinishReason.OTHER
    return _FINISH_REASONS.get(str(reason).lower(), FinishReason.OTHER)


def _is_refused(message: AIMessage) -> bool:
    if isinstance(message.content, str):
        return bool(message.additional_kwargs.get("refusal"))
    return any(isinstance(block, Mapping) and _refusal(block) for block in message.content)


def model_of(message: AIMessage) -> str | None:
    metadata = message.response_metadata
    return model_name(metadata.get("model_name") or metadata.get("model"))


def model_name(told: object) -> str | None:
    """The name of a model as a provider or an author tells it, of a length that every index can hold."""
    return clean(str(told))[:_LONGEST_MODEL_NAME] if told else None


def agent_of(message: AIMessage) -> dict[str, Any]:
    """The name of the agent that speaks within the graph, if it has one, as the extras of its rows."""
    return {"agent": message.name} if message.name else {}


def plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """`value` as JSON that every store and client can read.

    A type that JSON lacks becomes its name, a number that it lacks its text (`NaN`, all digits). A value
    that can't be encoded (for example because it contains itself) or is nested too deeply becomes `{"_unreadable": …}`.
    """
    try:
        decoded = orjson.loads(orjson.dumps(_encodable(value), default=_type_name, option=orjson.OPT_NON_STR_KEYS))
    except (orjson.JSONEncodeError, RecursionError, ValueError):
        return {"_unreadable": type(value).__name__}
    if depth_of(decoded) > DEEPEST:
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
    return shown_number(value) if isinstance(value, int | float) else value


def _type_name(value: object) -> str:
    return f"<{type(value).__name__}>"


def to_langchain(message: MessageRecord) -> BaseMessage:
    """A stored message as models are given it. By its id the transcoder knows that it isn't new."""
    parts, message_id = message.model_parts or message.parts, f"{message.exchange_id}:{message.rank}"
    text = text_of(parts)
    if message.role is Role.USER:
        return HumanMessage(_with_images(text, parts), id=message_id)
    if message.role is Role.SYSTEM:
        return SystemMessage(text, id=message_id)
    result = next((part for part in parts if isinstance(part, ToolResultPart)), None)
    if message.channel is Channel.TOOL_RESULT and result is not None:
        status = "error" if result.ok is False else "success"
        return ToolMessage(result.content, tool_call_id=result.call_id, status=status, id=message_id)
    calls = [
        {"name": part.name, "args": part.args, "id": part.call_id} for part in parts if isinstance(part, ToolCallPart)
    ]
    return AIMessage(text, tool_calls=calls, name=message.metadata.extras.get("agent"), id=message_id)


def _with_images(text: str, parts: Sequence[Part]) -> Any:
    """`text`, followed by references to the images that are attached to it (see agents.attached_images)."""
    images = [
        image_block(attachment_id, part.alt or "")
        for part in parts
        if isinstance(part, ImageUrlPart) and (attachment_id := attachment_of(part.url)) is not None
    ]
    return [{"type": "text", "text": text}, *images] if images else text
