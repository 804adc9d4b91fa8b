"""Emissions: what the nodes of one exchange emit by `emit_parts`, within bounds."""

import logging
from collections.abc import Sequence

from agentic_backend.agents.parts import EmittedParts
from agentic_backend.protocol.messages import Channel
from agentic_backend.streaming.drafts import ActivityDraft, Draft, MessageDrafts
from agentic_backend.streaming.held_texts import HeldTexts
from agentic_backend.streaming.writing import Writing

log = logging.getLogger(__name__)

MOST, MOST_BYTES = 500, 8_000_000
"""The most calls of `emit_parts` in an exchange, and the most bytes of their parts."""


class Emissions:
    """Owned by the exchange's StreamTranscoder."""

    def __init__(self) -> None:
        self._count = self._bytes = 0

    def take(
        self, emitted: EmittedParts, writings: Sequence[Writing], held: HeldTexts | None, drafts: MessageDrafts
    ) -> list[Draft]:
        """Show parts with the text that one of `writings`, those of the same graph, shows; or after the last of the
        `held` texts; or, where there is none, by themselves.
        """
        self._count += 1
        self._bytes += emitted.size
        if self._count > MOST or self._bytes > MOST_BYTES:
            log.warning("an agent emits more parts than an exchange may have", extra={"left_out": len(emitted.parts)})
            return [ActivityDraft("progress", {"left_out_parts": len(emitted.parts)})]
        if (writing := next((one for one in writings if one.text_block is not None), None)) is not None:
            writing.emitted += emitted.parts
            return []
        if held is not None and held.last is not None:
            held.show_beside_last(emitted.parts)
            return []
        draft = drafts.said(Channel.OBSERVATION, emitted.parts, drafts.bare)
        # Its key is that of no message: the graph is not given it again.
        return [drafts.row(draft, [("emitted", self._count)])]
