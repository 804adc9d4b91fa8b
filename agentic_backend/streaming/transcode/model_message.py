"""ModelMessage: the drafts that a complete message of a model becomes."""

from collections.abc import Sequence
from typing import NamedTuple

from langchain_core.messages import AIMessage

from agentic_backend.protocol.messages import Channel, FinishReason
from agentic_backend.protocol.parts import Part, TextPart, ToolCallPart
from agentic_backend.streaming.transcode.drafts import CompleteDraft, MessageDrafts, TextDraft, citing
from agentic_backend.streaming.transcode.writing import Writing, rest_of_text, shown_of


class ModelMessage(NamedTuple):
    parts: list[Part]
    # What its text adds to what was streamed.
    rest: TextDraft | None
    thought: CompleteDraft | None
    # On the channel `final`, or `observation` if calls follow.
    text: CompleteDraft | None
    calls: CompleteDraft | None
    finish_reason: FinishReason | None

    @classmethod
    def of(
        cls,
        message: AIMessage,
        writing: Writing | None,
        calls: Sequence[ToolCallPart],
        drafts: MessageDrafts,
        at: float,
        *,
        is_hidden: bool,
        has_calls: bool,
    ) -> "ModelMessage":
        """`calls` are its new calls; `has_calls` says whether it has any. Adds its cost to the usage."""
        thought, parts = ("", []) if is_hidden else shown_of(message, writing)
        whole = writing.completed(message) if writing is not None else message
        metadata = drafts.counted(whole, at)
        beside = drafts.beside(metadata)
        text_block, thought_block = (writing.text_block, writing.thought_block) if writing else (None, None)
        rest, text = rest_of_text(parts, writing), None
        if parts and has_calls:
            # No finish reason: the message continues with the calls, whose row has it.
            text = drafts.said(Channel.OBSERVATION, parts, citing(beside, whole), text_block)
        elif parts:
            text = drafts.said(Channel.FINAL, parts, citing(metadata, whole), text_block)
        return cls(
            parts=parts,
            rest=TextDraft(text_block, Channel.OBSERVATION, rest) if rest and text_block is not None else None,
            thought=drafts.said(Channel.THOUGHT, [TextPart(text=thought)], beside, thought_block) if thought else None,
            text=text,
            calls=drafts.calling(calls, metadata) if calls else None,
            finish_reason=metadata.finish_reason,
        )
