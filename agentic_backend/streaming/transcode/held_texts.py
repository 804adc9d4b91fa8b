"""HeldTexts: the texts and thoughts of an exchange that are complete, but not stored yet.

They are stored in the order in which they began to be shown. So each waits for those that began before it: for one that
is being written, and for the one that may become the final, even if it can't be the final itself.
"""

from bisect import insort_right
from collections.abc import Collection, Sequence

from agentic_backend.protocol.parts import Part
from agentic_backend.streaming.transcode.drafts import HeldText


class HeldTexts:
    """Owned by the exchange's StreamTranscoder."""

    def __init__(self) -> None:
        self._texts: list[HeldText] = []
        """In the order in which they are stored."""

    @property
    def last(self) -> HeldText | None:
        """The text that is the final if the graph ends here: the last that a node has returned, else the last."""
        able = [held for held in self._texts if held.may_be_final]
        returned = [held for held in able if held.handed_over]
        return next(reversed(returned or able), None)

    @property
    def has_handed_over(self) -> bool:
        """Whether a node has returned the text that is the final if the graph ends here."""
        return self.last is not None and self.last.handed_over

    def add(self, held: HeldText) -> None:
        insort_right(self._texts, held, key=_began)

    def due(self, open_blocks: Collection[int]) -> list[HeldText]:
        """Those that wait no longer, which are not held any more. `open_blocks` are being written."""
        last, first_open = self.last, min(open_blocks, default=None)
        count = 0
        for held in self._texts:
            if held is last or (first_open is not None and first_open < held.began):
                break
            count += 1
        return self._take(count)

    def release(self) -> list[HeldText]:
        """All texts, which are not held any more."""
        return self._take(len(self._texts))

    def take_last(self) -> HeldText | None:
        """The final of a graph that has ended, which is not held any more."""
        last = self.last
        self._texts = [held for held in self._texts if held is not last]
        return last

    def find(self, message_id: str | None) -> HeldText | None:
        """The text that a node may return again under this id."""
        return next((held for held in self._texts if message_id and held.message_id == message_id), None)

    def unreturned(self, texts: Collection[str]) -> HeldText | None:
        """The last of those that no node has returned, if it says one of `texts`."""
        unreturned = (held for held in reversed(self._texts) if not held.handed_over)
        return next((held for held in unreturned if held.text in texts), None)

    def replace(self, held: HeldText, by: HeldText) -> None:
        self._texts[self._texts.index(held)] = by

    def remove(self, message_id: str | None) -> None:
        """Drop the text of this message, or with None all texts."""
        self._texts = [held for held in self._texts if message_id is not None and held.message_id != message_id]

    def show_beside_last(self, parts: Sequence[Part]) -> None:
        """Add parts to the last text."""
        if (last := self.last) is not None:
            self.replace(last, last.beside(parts))

    def _take(self, count: int) -> list[HeldText]:
        taken, self._texts = self._texts[:count], self._texts[count:]
        return taken


def _began(held: HeldText) -> int:
    return held.began
