"""The order in which people first see the messages of a graph, against the order in which they are stored."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from langchain_core.messages import BaseMessage

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.protocol.messages import Channel
from agentic_backend.protocol.parts import text_of
from agentic_backend.streaming.transcode.drafts import CompleteDraft, Draft, TextDraft
from support.drafts import Transcript, in_short


class TimedTranscript(Transcript):
    """Keeps with each draft the number of the part of the stream that it came with, from 1 on."""

    def __init__(self, *parts: StreamPart, history: Sequence[BaseMessage] = ()) -> None:
        self.parts: list[StreamPart] = []
        self.timed: list[tuple[int, Draft]] = []
        super().__init__(*parts, history=history)

    def feed(self, part: StreamPart) -> list[Draft]:
        drafts = super().feed(part)
        self.parts.append(part)
        self.timed += [(len(self.parts), draft) for draft in drafts]
        return drafts

    def finish(self) -> "TimedTranscript":
        before = len(self.drafts)
        super().finish()
        self.timed += [(len(self.parts) + 1, draft) for draft in self.drafts[before:]]
        return self

    def updated_at(self, node: str) -> int:
        """The number of the part that says what this node has returned."""
        return next(
            number for number, (_, mode, told) in enumerate(self.parts, 1) if mode == "updates" and node in told
        )


class _Row(NamedTuple):
    short: str
    is_final: bool
    # When people first saw anything of it; of a text that was not streamed, when its node said it.
    seen: int
    # When its node was done with it.
    whole: int
    # Whether people see it as it is stored: it can't wait for texts that are being written.
    at_once: bool


def check_order(transcript: TimedTranscript, whole: Mapping[str, int]) -> None:
    """Check that messages are stored in the order in which they were first seen.

    The final stands last in any case. A text that is being written (by its mark, until when) stands after the calls,
    results and emitted parts that come meanwhile, and after what they have let go of.
    """
    rows = _rows(transcript, whole)
    for place, later in enumerate(rows):
        for at, earlier in enumerate(rows[:place]):
            if later.seen < earlier.seen and not later.is_final:
                waited = any(row.at_once and row.seen < later.whole for row in rows[at:place])
                assert waited, f"{earlier.short!r} is stored before {later.short!r}: {transcript.told}"


def _rows(transcript: TimedTranscript, whole: Mapping[str, int]) -> list[_Row]:
    seen: dict[int, int] = {}
    rows: list[_Row] = []
    for time, draft in transcript.timed:
        if isinstance(draft, TextDraft):
            seen.setdefault(draft.block, time)
        elif isinstance(draft, CompleteDraft):
            message, text = draft.message, text_of(draft.message.parts)
            at_once = message.channel in (Channel.TOOL_CALL, Channel.TOOL_RESULT) or (not text and draft.block is None)
            until = next((whole[mark] for mark in whole if mark in text), time)
            first = until if draft.block is None else seen[draft.block]
            rows.append(_Row(in_short(message), message.channel is Channel.FINAL, first, until, at_once))
    return rows
