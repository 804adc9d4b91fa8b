"""UnfinishedTexts: under which rank an older client shows the text of messages that are being written. Pure.

Such a client knows a message by its rank alone: text under a rank is added to what stands there, until the stored
message of that rank replaces it. So only one text is shown at a time, the one that began first, always under the next
rank to be stored: any other rank could be left standing. If another message gets that rank, the text so far is shown
again under the next one. What others write meanwhile is shown when its turn comes, or with its stored message.

Invariants: no rank ever has text of two messages, or text after its stored message.
"""

from collections.abc import Iterable
from typing import NamedTuple

from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import Channel

# The most characters of a text that are kept to be shown again; a longer one is not, until it is stored.
_KEPT = 65_536


class Piece(NamedTuple):
    """New text under a rank."""

    rank: int
    channel: Channel
    text: str


class _Unfinished:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.length = 0
        """The characters so far."""
        self._kept: str | None = ""
        """The text so far; None if it is too long."""
        self._last = ""
        """The text that came last."""

    def add(self, text: str) -> None:
        self._last = text
        self.length += len(text)
        if self._kept is not None:
            self._kept = self._kept + text if self.length <= _KEPT else None

    def after(self, shown: int) -> str:
        """The text behind the first `shown` characters; empty if it is no longer known."""
        if self._kept is not None:
            return self._kept[shown:]
        return self._last if shown == self.length - len(self._last) else ""


class _Shown(NamedTuple):
    """The text that the client shows: so many characters of the message in a block, under a rank."""

    rank: int
    block: int
    length: int


class UnfinishedTexts:
    """Those of one exchange, as one socket's client has them. Each method returns what to show next, if anything."""

    def __init__(self) -> None:
        self._next_rank: int | None = None
        """The rank of the next stored message; None until a message has told it."""
        self._last_stored = -1
        """The highest rank of the stored messages that the client has."""
        self._open: dict[int, _Unfinished] = {}
        """The unfinished texts by block, in the order in which they began."""
        self._shown: _Shown | None = None

    def begin_anew(self) -> None:
        """The exchange is told again from its beginning."""
        self._next_rank = None
        self._open.clear()

    def has(self, rank: int) -> bool:
        """Whether the client has the stored message of this rank."""
        return rank <= self._last_stored

    def add(self, block: int, channel: Channel, text: str) -> Piece | None:
        """Text was added to the message in `block`."""
        unfinished = self._open.setdefault(block, _Unfinished(channel))
        unfinished.channel = channel
        unfinished.add(text)
        return self._next_piece()

    def store(self, rank: int, block: int | None) -> Piece | None:
        """The client has been sent a stored message, which was written in `block` if it was streamed."""
        self._next_rank = rank + 1
        self._last_stored = max(self._last_stored, rank)
        if block is not None:
            self._open.pop(block, None)
        return self._next_piece()

    def replace(self, partial: Iterable[PartialText]) -> Piece | None:
        """These are all texts that are being written now."""
        self._open.clear()
        for text in partial:
            self._open[text.block] = _Unfinished(text.channel)
            self._open[text.block].add(text.text)
        return self._next_piece()

    def _next_piece(self) -> Piece | None:
        if not self._open or self._next_rank is None or self.has(self._next_rank):
            return None
        block, first = next(iter(self._open.items()))
        shown = 0
        if self._shown is not None and self._shown.rank == self._next_rank:
            if self._shown.block != block:
                return None
            shown = self._shown.length
        text = first.after(shown)
        if not text:
            return None
        self._shown = _Shown(self._next_rank, block, first.length)
        return Piece(self._next_rank, first.channel, text)
