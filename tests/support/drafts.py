"""Handmade parts of a graph's stream, and a StreamTranscoder's drafts for them, checked against the contract."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.protocol.messages import Channel, FinishReason, Role
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart, text_of
from agentic_backend.stores.records import MessageDraft, place
from agentic_backend.streaming.transcode.drafts import ActivityDraft, CompleteDraft, Draft, TextDraft
from agentic_backend.streaming.transcode.stream_transcoder import StreamTranscoder

Namespace = tuple[str, ...]
Told = tuple[str, str]
"""A stored message in short: its channel, and its text or calls."""


def token(
    content: Any = "",
    message_id: str | None = "m1",
    *,
    thought: str = "",
    calls: Sequence[tuple[str, str, str]] = (),
    last: bool = False,
    node: str = "model",
    within: Namespace = (),
    **fields: Any,
) -> StreamPart:
    """A chunk of a model message; `calls` are (call_id, name, arguments in JSON)."""
    chunk = AIMessageChunk(
        content,
        id=message_id,
        additional_kwargs={"reasoning_content": thought} if thought else {},
        tool_call_chunks=[
            tool_call_chunk(id=call_id, name=name, args=args, index=index)
            for index, (call_id, name, args) in enumerate(calls)
        ],
        chunk_position="last" if last else None,
        **fields,
    )
    return within, "messages", (chunk, {"langgraph_node": node})


def update(*messages: Any, node: str = "model", within: Namespace = ()) -> StreamPart:
    return within, "updates", {node: {"messages": list(messages)}}


def ai(text: Any, message_id: str | None = "m1", *calls: tuple[str, str], **fields: Any) -> AIMessage:
    """A model message; `calls` are (call_id, name), each with one argument."""
    tool_calls = [{"id": call_id, "name": name, "args": {"x": 1}} for call_id, name in calls]
    return AIMessage(text, id=message_id, tool_calls=tool_calls, **fields)


def result(call_id: str, content: Any = "done", **fields: Any) -> ToolMessage:
    return ToolMessage(content, tool_call_id=call_id, id=f"result-{call_id}", **fields)


class Transcript:
    """Feeds a transcoder, one part per second starting at 1, and keeps all drafts."""

    def __init__(self, *parts: StreamPart, history: Sequence[BaseMessage] = ()) -> None:
        self.transcoder = StreamTranscoder("agent", history, 0.0)
        self.drafts: list[Draft] = []
        self.now = 0.0
        for part in parts:
            self.feed(part)

    def feed(self, part: StreamPart) -> list[Draft]:
        self.now += 1
        drafts = self.transcoder.feed(part, self.now)
        self.drafts += drafts
        return drafts

    def finish(self) -> "Transcript":
        self.drafts += self.transcoder.finish(self.now)
        check_drafts(self.drafts, "finished")
        return self

    def close(self, reason: FinishReason = FinishReason.CANCELLED) -> "Transcript":
        self.drafts += self.transcoder.close(self.now, reason, "Stopped.")
        check_drafts(self.drafts, "closed")
        return self

    @property
    def messages(self) -> list[MessageDraft]:
        return [draft.message for draft in self.drafts if isinstance(draft, CompleteDraft)]

    @property
    def told(self) -> list[Told]:
        return [(str(message.channel), in_short(message)) for message in self.messages]

    @property
    def activities(self) -> list[ActivityDraft]:
        return [draft for draft in self.drafts if isinstance(draft, ActivityDraft)]

    @property
    def final(self) -> MessageDraft:
        [final] = [message for message in self.messages if message.channel is Channel.FINAL]
        return final


def in_short(message: MessageDraft) -> str:
    """The text of a message; calls as `name(call_id)`, results as `call_id=content`, with `!` if they failed."""
    shorts = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            shorts.append(f"{part.name}({part.call_id})")
        elif isinstance(part, ToolResultPart):
            shorts.append(f"{part.call_id}={part.content}{'' if part.ok else '!'}")
    return " ".join(shorts) or text_of(message.parts)


def check_drafts(drafts: Sequence[Draft], ended: Literal["finished", "closed"]) -> None:
    """Check the contract's invariants on all drafts of one exchange."""
    stored = [draft.message for draft in drafts if isinstance(draft, CompleteDraft)]
    finals = [message for message in stored if message.channel is Channel.FINAL]
    if ended == "finished":
        assert len(finals) == 1, "a graph that ends has one final"
    assert len(finals) <= 1
    assert not finals or stored[-1] is finals[0], "the final is the last message"
    _check_blocks(drafts)
    _check_calls(stored)
    for message in place(stored, session_id=None, exchange_id="e", next_rank=0, at=datetime.now(UTC)):
        message.shown().model_dump_json()
        assert message.role is (Role.TOOL if message.channel is Channel.TOOL_RESULT else Role.ASSISTANT)


def _check_blocks(drafts: Sequence[Draft]) -> None:
    """Check that each opened block is closed once, by a message with the text of its deltas."""
    open_texts: dict[int, str] = {}
    closed: set[int] = set()
    for draft in drafts:
        if isinstance(draft, TextDraft):
            assert draft.text, "no delta is empty"
            assert draft.block not in closed, "nothing is added to a closed block"
            open_texts[draft.block] = open_texts.get(draft.block, "") + draft.text
        elif isinstance(draft, CompleteDraft) and draft.block is not None:
            assert text_of(draft.message.parts) == open_texts.pop(draft.block)
            closed.add(draft.block)
    assert not open_texts, "every block is closed"
    assert sorted(closed) == list(range(len(closed))), "blocks are numbered from 0 on"


def _check_calls(stored: Sequence[MessageDraft]) -> None:
    """Check that every call has one result, in a separate message after the call."""
    waiting: list[str] = []
    for message in stored:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                assert message.channel is Channel.TOOL_CALL
                assert part.call_id not in waiting
                waiting.append(part.call_id)
            elif isinstance(part, ToolResultPart):
                assert message.channel is Channel.TOOL_RESULT and message.parts[0] is part
                assert part.call_id in waiting, "a result comes after its call, and once"
                waiting.remove(part.call_id)
    assert not waiting, "every call has a result"
