"""OpenTexts: the texts of the messages that are not complete yet, in the entries of an exchange's log."""

from collections.abc import Mapping, Sequence

from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import Channel
from agentic_backend.relay.log.log_entries import Entry, TextRun


class OpenTexts:
    """How long each of them is, kept beside the entries: a log may have thousands, and few of them are open."""

    def __init__(self) -> None:
        self._lengths: dict[int, int] = {}
        """In characters, by block."""

    @property
    def lengths(self) -> dict[int, int]:
        """How many characters each of them has, by block."""
        return self._lengths.copy()

    def add(self, block: int, text: str) -> None:
        self._lengths[block] = self._lengths.get(block, 0) + len(text)

    def complete(self, block: int | None) -> None:
        """The message of this block is complete; None: it had no text before."""
        if block is not None:
            self._lengths.pop(block, None)

    def begin_anew(self, texts: Sequence[PartialText]) -> None:
        self._lengths = {}
        for text in texts:
            self.add(text.block, text.text)

    def after(self, entries: Sequence[Entry], lengths: Mapping[int, int]) -> list[PartialText]:
        """What each of them has in `entries` behind its first `lengths` characters, by block; one that has no more is
        left out.
        """
        missing = {block: length - lengths.get(block, 0) for block, length in self._lengths.items()}
        found: dict[int, list[str]] = {}
        channels: dict[int, Channel] = {}
        # From the end, so that what is long and not wanted is neither visited nor copied.
        for entry in reversed(entries):
            if not any(length > 0 for length in missing.values()):
                break
            if isinstance(entry, TextRun) and missing.get(entry.block, 0) > 0:
                text = entry.text.after(max(0, entry.text.length - missing[entry.block]))
                found.setdefault(entry.block, []).append(text)
                channels.setdefault(entry.block, entry.channel)
                missing[entry.block] -= len(text)
        return [
            PartialText(block=block, channel=channels[block], text="".join(reversed(found[block])))
            for block in missing
            if block in found
        ]
