"""Emissions: what the nodes of one exchange emit by `emit_parts`, within bounds, where people may see it."""

import logging
from collections.abc import Iterable

from agentic_backend.agents.parts import EmittedParts
from agentic_backend.protocol.messages import Channel
from agentic_backend.protocol.parts import Part
from agentic_backend.streaming.transcode.drafts import ActivityDraft, CompleteDraft, Draft, MessageDrafts
from agentic_backend.streaming.transcode.held_back import HeldBack
from agentic_backend.streaming.transcode.held_texts import HeldTexts
from agentic_backend.streaming.transcode.writing import Writing

log = logging.getLogger(__name__)

MOST, MOST_BYTES = 500, 8_000_000
"""The most calls of `emit_parts` in an exchange, and the most bytes of their parts."""


class Emissions:
    """Owned by the exchange's StreamTranscoder."""

    def __init__(self, held_back: HeldBack) -> None:
        self._held_back = held_back
        self._count = self._bytes = 0
        self._for_final: list[Part] = []
        """Those without a text, where people see only the final."""

    def take(
        self,
        emitted: EmittedParts,
        namespace: tuple[str, ...],
        writings: Iterable[Writing],
        held: HeldTexts | None,
        drafts: MessageDrafts,
    ) -> list[Draft]:
        """Show parts with the text that one of `writings`, if it is of the same graph, shows; or after the last of the
        `held` texts; or, where there is none, by themselves, or with the final where people see nothing before it.
        """
        if self._held_back.hides((namespace, emitted.node)):
            return []
        self._count += 1
        self._bytes += emitted.size
        if self._count > MOST or self._bytes > MOST_BYTES:
            log.warning("agent emits too many parts", extra={"left_out": len(emitted.parts)})
            return [ActivityDraft("progress", {"left_out_parts": len(emitted.parts)})]
        beside = (one for one in writings if one.place[0] == namespace and self._is_said(one))
        if (writing := next(beside, None)) is not None:
            writing.emitted += emitted.parts
            return []
        if held is not None and held.last is not None:
            held.show_beside_last(emitted.parts)
            return []
        if self._held_back.all_but_final:
            self._for_final += emitted.parts
            return []
        draft = drafts.said(Channel.OBSERVATION, emitted.parts, drafts.bare)
        # Its key is that of no message: the graph is not given it again.
        return [drafts.row(draft, [("emitted", self._count)])]

    def with_final(self, final: CompleteDraft) -> CompleteDraft:
        """The final of a graph that has ended, with the parts that waited for it."""
        return final.with_parts([*final.message.parts, *self._for_final]) if self._for_final else final

    def _is_said(self, writing: Writing) -> bool:
        """Whether people see the text that is being written, or will see it if it becomes the final."""
        if self._held_back.all_but_final:
            return bool(writing.first_character) and not writing.is_hidden
        return writing.text_block is not None
