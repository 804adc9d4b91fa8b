"""Drafts: the output of a StreamTranscoder, before ranks and seqs are assigned."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from langchain_core.messages import AIMessage, ToolMessage

from agentic_backend.protocol.messages import Channel, FinishReason, MessageMetadata, Role, TokenUsage
from agentic_backend.protocol.parts import Part, TextPart, ToolCallPart, text_of
from agentic_backend.stores.records import MessageDraft
from agentic_backend.streaming.content.conversion import (
    agent_of,
    beside_text,
    cached_input_of,
    cited_in,
    finish_reason_of,
    marks_of,
    model_of,
    result_of,
    server_tools_of,
    shown_beside,
    usage_of,
)
from agentic_backend.streaming.transcode.reach import Reach

CACHED_INPUT = "cached_input_tokens"
"""The key of a message's extras with the number of its input tokens that the provider had cached."""


class TextDraft(NamedTuple):
    """New text of the partial message in `block`."""

    block: int
    channel: Channel
    text: str


class CompleteDraft(NamedTuple):
    """A complete message; it replaces the deltas of `block`, if that is not None."""

    message: MessageDraft
    block: int | None

    def as_observation(self) -> "CompleteDraft":
        """The same message on the channel `observation` instead of `final`."""
        return self.changed(channel=Channel.OBSERVATION) if self.message.channel is Channel.FINAL else self

    def with_parts(self, parts: list[Part]) -> "CompleteDraft":
        return self.changed(parts=parts)

    def with_finish_reason(self, reason: FinishReason) -> "CompleteDraft":
        return self.changed(metadata=self.message.metadata.model_copy(update={"finish_reason": reason}))

    def changed(self, **fields: Any) -> "CompleteDraft":
        """The same message with other `fields`."""
        return self._replace(message=replace(self.message, **fields))


class ActivityDraft(NamedTuple):
    kind: Literal["agent_switch", "handoff", "progress", "compacted"]
    data: dict[str, Any]


Draft = TextDraft | CompleteDraft | ActivityDraft


class HeldText(NamedTuple):
    """A complete text or thought that is held back: it may be the final of its exchange, or others stand before it."""

    draft: CompleteDraft
    # When it began to be shown: its block; for one that was not streamed the number of blocks so far.
    began: int
    # The id under which a node may return the text again; None if it has none.
    message_id: str | None
    # Whether a node has returned it. Such a text is preferred as the final over one that was only streamed.
    handed_over: bool
    # The keys of its message (see Reach); None if the root graph has returned it.
    keys: Sequence[object] | None
    # Whether it may be the final at all.
    may_be_final: bool = True
    # The parts at the end of its draft that its graph emitted, beside those of its message.
    emitted: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        """The text of its message."""
        parts = self.draft.message.parts
        return text_of(parts[: len(parts) - len(self.emitted)])

    def saying(self, parts: Sequence[Part]) -> "HeldText":
        """The same text with these parts of its message."""
        return self._replace(draft=self.draft.with_parts([*parts, *self.emitted]))

    def beside(self, emitted: Sequence[Part]) -> "HeldText":
        """The same text with more parts that its graph emitted."""
        draft = self.draft.with_parts([*self.draft.message.parts, *emitted])
        return self._replace(draft=draft, emitted=(*self.emitted, *emitted))


def citing(metadata: MessageMetadata, message: AIMessage) -> MessageMetadata:
    """`metadata` with the sources that `message` cites."""
    sources = cited_in(message)
    return metadata.model_copy(update={"sources": sources}) if sources else metadata


class MessageDrafts:
    """Builds the complete messages of one exchange, with their agent, cost, and whether the root graph has them.

    Owned by the exchange's StreamTranscoder. Times are seconds of one monotonic clock.
    """

    def __init__(
        self,
        agent_id: str,
        reach: Reach,
        started_at: float,
        usage: TokenUsage,
        titles: Mapping[str, str] | None = None,
    ) -> None:
        self._agent_id = agent_id
        self._titles = titles or {}
        """The titles of tools, by name."""
        self._reach = reach
        """Tracks which messages have reached the root graph."""
        self._since = started_at
        """When the last message or result was complete: the next latency starts there."""
        self.usage = usage
        """The models' usage so far."""
        self.model: str | None = None
        """The model that spoke last."""

    def counted(self, message: AIMessage, at: float) -> MessageMetadata:
        """The metadata of a complete model message; adds its cost to the usage."""
        usage, latency_ms = usage_of(message), self._latency_ms(at)
        tools, cached = server_tools_of(beside_text(message)), cached_input_of(message)
        self._since = at
        self.usage += usage or TokenUsage()
        self.model = model_of(message) or self.model
        return MessageMetadata(
            model=model_of(message),
            token_usage=usage,
            agent_id=self._agent_id,
            latency_ms=latency_ms,
            finish_reason=finish_reason_of(message),
            extras={
                **agent_of(message),
                **({"server_tools": tools} if tools else {}),
                **({CACHED_INPUT: cached} if cached else {}),
            },
        )

    def uncounted(self, message: AIMessage) -> MessageMetadata:
        """The metadata of a message whose cost is counted already."""
        return MessageMetadata(
            agent_id=self._agent_id, finish_reason=finish_reason_of(message), extras=agent_of(message)
        )

    @property
    def bare(self) -> MessageMetadata:
        """The metadata of a result that replaces a missing one."""
        return MessageMetadata(agent_id=self._agent_id)

    def beside(self, metadata: MessageMetadata) -> MessageMetadata:
        """The metadata of a further row of a message; another row has the cost and the finish reason."""
        return MessageMetadata(agent_id=self._agent_id, model=metadata.model, extras=metadata.extras)

    def said(
        self, channel: Channel, parts: Sequence[Part], metadata: MessageMetadata, block: int | None = None
    ) -> CompleteDraft:
        """A message of the agent."""
        draft = MessageDraft(role=Role.ASSISTANT, channel=channel, parts=list(parts), metadata=metadata)
        return CompleteDraft(draft, block)

    def calling(self, calls: Sequence[ToolCallPart], metadata: MessageMetadata) -> CompleteDraft:
        """The message of an agent that calls tools, with their titles."""
        titled = [call.model_copy(update={"title": self._titles.get(call.name)}) for call in calls]
        return self.said(Channel.TOOL_CALL, titled, metadata)

    def final_of(self, parts: Sequence[Part], reason: FinishReason | None, at: float) -> CompleteDraft:
        """The final of a graph that ended without an assistant text."""
        metadata = MessageMetadata(agent_id=self._agent_id, latency_ms=self._latency_ms(at), finish_reason=reason)
        return self.said(Channel.FINAL, parts or [TextPart(text="")], metadata)

    def result(self, message: ToolMessage, latency_ms: int, at: float) -> CompleteDraft:
        """The message of a tool's result, with the parts shown beside it and the server's marks."""
        self._since = at
        metadata = MessageMetadata(agent_id=self._agent_id, latency_ms=latency_ms, extras=marks_of(message))
        parts = [result_of(message, latency_ms), *shown_beside(message)]
        draft = MessageDraft(role=Role.TOOL, channel=Channel.TOOL_RESULT, parts=parts, metadata=metadata)
        return CompleteDraft(draft, None)

    def row(self, draft: CompleteDraft, keys: Sequence[object] | None = None) -> CompleteDraft:
        """`draft`, which is stored next, with the marks of its message's reach; `keys` as in HeldText."""
        marks = self._reach.marks(keys) if keys else self._reach.marks_of_final()
        return draft.changed(**marks) if marks else draft

    def _latency_ms(self, at: float) -> int:
        return round((at - self._since) * 1000)
