"""HeldTexts: the texts of an exchange that are complete, but not stored yet: the last of them may become the final.

Texts that models write at the same time are stored in the order in which they began to be shown, so a text waits for
those that began before it.
"""

from collections.abc import Collection, Sequence

from agentic_backend.protocol.parts import Part
from agentic_backend.streaming.drafts import HeldText


class HeldTexts:
    """Owned by the exchange's StreamTranscoder."""

    def __init__(self) -> None:
        # In the order in which they are stored.
        self._texts: list[HeldText] = []

    @property
    def last(self) -> HeldText | None:
        """The text that is the final if the graph ends here."""
        return self._texts[-1] if self._texts else None

    @property
    def has_handed_over(self) -> bool:
        """Whether a node has returned one of them; such a text is preferred as the final."""
        return any(held.handed_over for held in self._texts)

    def add(self, held: HeldText, open_blocks: Collection[int]) -> list[HeldText]:
        """Hold a text; return those that no longer wait. `open_blocks` are the texts that are being written."""
        block, place = held.draft.block, len(self._texts)
        if block is not None:
            while place and self._begins_after(self._texts[place - 1], block, held.handed_over):
                place -= 1
        self._texts.insert(place, held)
        released = []
        while len(self._texts) > 1 and not _waits(self._texts[0], open_blocks):
            released.append(self._texts.pop(0))
        return released

    @staticmethod
    def _begins_after(held: HeldText, block: int, handed_over: bool) -> bool:
        return held.draft.block is not None and held.draft.block > block and held.handed_over >= handed_over

    def release(self) -> list[HeldText]:
        """All texts, which are not held any more."""
        released, self._texts = self._texts, []
        return released

    def find(self, message_id: str | None) -> HeldText | None:
        """The text that a node may return again under this id."""
        return next((held for held in self._texts if message_id and held.message_id == message_id), None)

    def replace(self, held: HeldText, by: HeldText) -> None:
        self._texts[self._texts.index(held)] = by

    def remove(self, message_id: str | None) -> None:
        """Drop the text of this message, or with None all texts."""
        self._texts = [held for held in self._texts if message_id is not None and held.message_id != message_id]

    def show_beside_last(self, parts: Sequence[Part]) -> None:
        """Add parts to the last text."""
        self._texts[-1] = self._texts[-1].beside(parts)


def _waits(held: HeldText, open_blocks: Collection[int]) -> bool:
    block = held.draft.block
    return block is not None and any(one < block for one in open_blocks)
