"""What a StreamTranscoder makes of a graph's stream, before ranks, seqs and the store are known."""

from typing import Any, Literal, NamedTuple

from agentic_backend.protocol.messages import Channel, MessageDraft


class TextDraft(NamedTuple):
    """New text of the message being written in `block`."""

    block: int
    channel: Channel
    text: str


class CompleteDraft(NamedTuple):
    """A complete message; `block` is the one whose deltas it replaces, None where it had none."""

    message: MessageDraft
    block: int | None


class ActivityDraft(NamedTuple):
    kind: Literal["agent_switch", "handoff", "progress", "compacted"]
    data: dict[str, Any]


Draft = TextDraft | CompleteDraft | ActivityDraft
