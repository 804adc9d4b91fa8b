"""The event log of one exchange, and the cursors that read it.

Append-only; its exchange is the only writer. There is no queue per client: a cursor is a place in the log, and a
reader that is behind gets adjacent deltas merged into one. Text that everybody has read, or nobody, is merged once
there is much of it, so that memory follows the length of the text and not the number of tokens; of progress there only
the last is kept. A cursor inside merged text can't go on from there: it gets a `reset`, never a text twice.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sys import getsizeof
from typing import Any, Literal, TypeVar

from agentic_backend.growing_text import GrowingText
from agentic_backend.protocol.events import (
    Activity,
    AwaitingHuman,
    Delta,
    ExchangeEvent,
    Final,
    PartialText,
    Reset,
    Stream,
)
from agentic_backend.protocol.messages import Channel, ChatMessage
from agentic_backend.protocol.seq import epoch_of, is_beginning

AnyEvent = TypeVar("AnyEvent", bound=ExchangeEvent)

_UNKNOWN = -1
# What Python takes for a place in a list, and for the objects of an event beside its texts, in bytes.
_REFERENCE, _OBJECTS = 8, 3_200


@dataclass(slots=True)
class _TextRun:
    """Deltas of one block, `first_seq` to `seq`."""

    first_seq: int
    seq: int
    block: int
    channel: Channel
    text: GrowingText


_Entry = _TextRun | ExchangeEvent


class Cursor:
    """A reader's place: it has everything up to `position`. `wake` is called when there is more.

    More text of a message being written calls `wake_for_text` instead, which may let some of it gather.
    """

    def __init__(
        self, log: "ExchangeLog", position: int, wake: Callable[[], None], wake_for_text: Callable[[], None]
    ) -> None:
        self.log = log
        self.position = position
        self.wake = wake
        self.wake_for_text = wake_for_text
        self.was_unreached = False
        """Whether the log ended before this place when somebody last looked."""

    def take(self) -> list[ExchangeEvent]:
        """All that is there after the cursor's place, which moves behind it."""
        events = self.log.read(self.position)
        if events:
            self.position = events[-1].seq
        return events


class ExchangeLog:
    """`user_id` is whose exchange it is.

    While it `is_filling` with what another instance has shown already, its readers wait: their places mean nothing yet.
    While it `is_mirrored` it lags behind the owner's log: whoever comes from there with a place beyond its end waits
    until it is there, so that what he is shown next is never what he has seen.
    """

    def __init__(
        self,
        session_id: str | None,
        exchange_id: str,
        *,
        user_id: str = "",
        compact_after: int = 512,
    ) -> None:
        self.session_id = session_id
        self.exchange_id = exchange_id
        self.user_id = user_id
        self.last_seq = 0
        self.is_filling = self.is_mirrored = False
        self.final: Final | None = None
        self._ended = asyncio.Event()
        self._before: list[ChatMessage] = []
        self._begins_after = 0
        self._began_anew = False
        self._entries: list[_Entry] = []
        self._cursors: set[Cursor] = set()
        self._read_up_to = 0
        self._compact_after = compact_after
        self._compact_at = compact_after

    def follow(
        self, after_seq: int, wake: Callable[[], None], wake_for_text: Callable[[], None] | None = None
    ) -> Cursor:
        """A cursor that has everything up to `after_seq`; give it back with `unfollow`."""
        # A place beyond the end is unknown, and stays so though the log may grow beyond it before it is read. Nobody
        # has anything of what began anew before there was any place.
        is_unknown = self._is_beyond(after_seq) or (after_seq == 0 and self._began_anew)
        position = _UNKNOWN if is_unknown else after_seq
        self._read_up_to = max(self._read_up_to, min(position, self.last_seq))
        cursor = Cursor(self, position, wake, wake_for_text or wake)
        self._cursors.add(cursor)
        return cursor

    def unfollow(self, cursor: Cursor) -> None:
        self._cursors.discard(cursor)

    @property
    def is_followed(self) -> bool:
        return bool(self._cursors)

    @property
    def is_waiting(self) -> bool:
        """Whether nothing has come since the exchange began to wait for a person."""
        return bool(self._entries) and isinstance(self._entries[-1], AwaitingHuman)

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes; to be asked once, for it looks at every event."""
        runs = [entry for entry in self._entries if isinstance(entry, _TextRun)]
        texts = sum(getsizeof(part) + _REFERENCE for run in runs for part in run.text.parts)
        # The messages of a final are those of the events before it.
        told = [entry for entry in self._entries if not isinstance(entry, _TextRun | Final)]
        events = sum(len(value.model_dump_json()) for value in [*told, *self._before])
        return texts + events + _OBJECTS * (len(self._entries) - len(runs) + len(self._before))

    async def wait_ended(self) -> None:
        """Until the final is in the log."""
        await self._ended.wait()

    def append(self, event_type: type[AnyEvent], /, **fields: Any) -> AnyEvent:
        """Add an event of this type with the next seq, and wake the readers."""
        self.last_seq += 1
        event = event_type(session_id=self.session_id, exchange_id=self.exchange_id, seq=self.last_seq, **fields)
        self._append(event)
        return event

    def append_text(self, block: int, channel: Channel, text: str) -> None:
        """Add text of the message being written in `block`."""
        self._append_text(self.last_seq + 1, block, channel, text)

    def _append_text(self, seq: int, block: int, channel: Channel, text: str) -> None:
        """Add text whose seqs go from the next one up to `seq`."""
        first_seq, self.last_seq = self.last_seq + 1, seq
        last = self._entries[-1] if self._entries else None
        # While it is filling, a reader's place may lie between any two.
        is_unread = isinstance(last, _TextRun) and last.first_seq > self._read_up_to and not self.is_filling
        if isinstance(last, _TextRun) and is_unread and last.block == block:
            last.text.add(text)
            last.seq = seq
        else:
            self._add(_TextRun(first_seq, seq, block, channel, GrowingText(text)))
        for cursor in self._cursors:
            cursor.wake_for_text()

    def take_over(self, event: ExchangeEvent) -> None:
        """Add an event of another instance's log of this exchange, with its seq; one that is here already is dropped.

        A `reset` takes the place of all that was.
        """
        if event.seq <= self.last_seq:
            return
        if isinstance(event, Delta):
            # It may have been merged there: it is all that was said since the event before.
            self._append_text(event.seq, event.block, event.channel, event.text)
        elif isinstance(event, Reset):
            self.start_anew(event.messages, event.partial, event.seq)
        else:
            self.last_seq = event.seq
            self._append(event)

    def start_anew(self, messages: Sequence[ChatMessage], partial: Sequence[PartialText], seq: int) -> None:
        """Forget every event up to `seq`: all readers get a `reset` with these messages, and this text."""
        self._before, self._begins_after, self._began_anew = list(messages), seq, True
        self.last_seq = self._read_up_to = seq
        self._entries = [_TextRun(seq, seq, text.block, text.channel, GrowingText(text.text)) for text in partial]
        self.filled()

    def filled(self) -> None:
        """All that was shown elsewhere is here."""
        self.is_filling = False
        for cursor in self._cursors:
            cursor.wake()

    def jump_to(self, seq: int) -> None:
        """Go on above `seq`, which other logs of the same exchange may have reached."""
        self.last_seq = max(self.last_seq, seq)

    def give_up_unreached(self) -> None:
        """Who has waited since the last call for a place that the log doesn't reach gets a `reset`."""
        for cursor in self._cursors:
            is_unreached = not self.is_filling and cursor.position > self.last_seq
            if is_unreached and cursor.was_unreached:
                cursor.position = _UNKNOWN
                cursor.wake()
            cursor.was_unreached = is_unreached

    def end_with(self, final: Final) -> None:
        """The exchange has ended without this log: all readers get a `reset` and the `final`."""
        seq = max(final.seq, self.last_seq + 2)
        self.start_anew(final.messages, (), seq - 1)
        self.take_over(final.model_copy(update={"seq": seq}))

    def _append(self, event: ExchangeEvent) -> None:
        self._add(event)
        if isinstance(event, Final):
            self.final = event
            self._ended.set()
        for cursor in self._cursors:
            cursor.wake()

    def read(self, after_seq: int) -> list[ExchangeEvent]:
        """The events after `after_seq`; where that place is gone or unknown, a `reset` in the place of all that was."""
        replay = self.replay_from(after_seq)
        if replay == "live":
            return []
        self._read_up_to = self.last_seq
        if replay == "reset":
            return self._start_anew()
        start = bisect_right(self._entries, after_seq, key=_seq)
        events: list[ExchangeEvent] = []
        texts: list[str] = []
        for index in range(start, len(self._entries)):
            entry = self._entries[index]
            if not isinstance(entry, _TextRun):
                events.append(entry)
                continue
            texts.append(entry.text.joined())
            following = self._entries[index + 1] if index + 1 < len(self._entries) else None
            if not isinstance(following, _TextRun) or following.block != entry.block:
                events.append(self._delta(entry, "".join(texts)))
                texts = []
        return events

    def replay_from(self, after_seq: int) -> Literal["live", "reset", "replayed"]:
        """What `read` would give: nothing yet, a reset, or the events after `after_seq`."""
        if after_seq == _UNKNOWN:
            return "live" if self.is_filling else "reset"
        if after_seq == self.last_seq or self.is_filling:
            return "live"
        if after_seq > self.last_seq:
            return "reset" if self._is_beyond(after_seq) else "live"
        start = bisect_right(self._entries, after_seq, key=_seq)
        is_lost = after_seq < self._begins_after or self._inside_run(start, after_seq)
        return "reset" if is_lost or self._is_elsewhere(start, after_seq) else "replayed"

    @property
    def messages(self) -> list[ChatMessage]:
        """The exchange's messages so far, by rank."""
        return [*self._before, *(entry.message for entry in self._entries if isinstance(entry, Stream))]

    @property
    def partial(self) -> list[PartialText]:
        """The text of the messages that are not complete yet, by block."""
        texts: dict[int, list[str]] = {}
        channels: dict[int, Channel] = {}
        for entry in self._entries:
            if isinstance(entry, _TextRun):
                texts.setdefault(entry.block, []).append(entry.text.joined())
                channels[entry.block] = entry.channel
            elif isinstance(entry, Stream) and entry.block is not None:
                texts.pop(entry.block, None)
        return [
            PartialText(block=block, channel=channels[block], text="".join(pieces)) for block, pieces in texts.items()
        ]

    def _is_beyond(self, after_seq: int) -> bool:
        """Whether the log will never come to the end of what lies before this place."""
        will_grow = self.is_filling or (self.is_mirrored and self.final is None)
        return after_seq > self.last_seq and not will_grow

    def _is_elsewhere(self, start: int, after_seq: int) -> bool:
        """Whether this place, before the entry at `start`, is none of this log.

        An owner may have given more elsewhere than came here; and where an epoch begins stands what was made of the
        store alone.
        """
        if after_seq in (0, self._begins_after) or (start > 0 and self._entries[start - 1].seq == after_seq):
            return False
        following = self._entries[start] if start < len(self._entries) else None
        next_seq = following.first_seq if isinstance(following, _TextRun) else following.seq if following else None
        return is_beginning(after_seq) or epoch_of(after_seq) != epoch_of(next_seq or self.last_seq)

    def _inside_run(self, start: int, after_seq: int) -> bool:
        for entry in self._entries[start:]:
            if not isinstance(entry, _TextRun):
                return False
            if entry.first_seq <= after_seq:
                return True
        return False

    def _start_anew(self) -> list[ExchangeEvent]:
        """A `reset`; behind it the end, or what a person is waited for, because no reset holds these."""
        last = self._entries[-1] if self._entries else None
        if isinstance(last, AwaitingHuman | Final):
            return [self._reset(last.seq - 1), last]
        return [self._reset(self.last_seq)]

    def _reset(self, seq: int) -> Reset:
        return Reset(
            session_id=self.session_id,
            exchange_id=self.exchange_id,
            seq=seq,
            messages=self.messages,
            partial=self.partial,
        )

    def _delta(self, run: _TextRun, text: str) -> Delta:
        return Delta(
            session_id=self.session_id,
            exchange_id=self.exchange_id,
            seq=run.seq,
            block=run.block,
            channel=run.channel,
            text=text,
        )

    def _add(self, entry: _Entry) -> None:
        self._entries.append(entry)
        if len(self._entries) >= self._compact_at:
            self._compact()

    def _compact(self) -> None:
        """Merge what no reader's place lies within: what every cursor has read, and what nobody has."""
        read_by_all = min((cursor.position for cursor in self._cursors), default=self._read_up_to)
        read = bisect_right(self._entries, read_by_all, key=_seq)
        unread = bisect_right(self._entries, self._read_up_to, key=_seq)
        between = self._entries[read:unread]
        self._entries = [*_merged(self._entries[:read]), *between, *_merged(self._entries[unread:])]
        self._compact_at = len(self._entries) + self._compact_after


def _merged(entries: Sequence[_Entry]) -> list[_Entry]:
    """`entries` with text merged block by block between other events, and of progress only the last."""
    last_progress = next((entry for entry in reversed(entries) if _is_progress(entry)), None)
    merged: list[_Entry] = []
    runs: dict[int, _TextRun] = {}
    for entry in entries:
        if isinstance(entry, _TextRun):
            run = runs.pop(entry.block, None)
            if run is None:
                run = entry
            else:
                run.seq = entry.seq
                run.text.add_all(entry.text)
            runs[entry.block] = run
        elif entry is last_progress or not _is_progress(entry):
            merged += [*runs.values(), entry]
            runs = {}
    merged += runs.values()
    for entry in merged:
        if isinstance(entry, _TextRun):
            entry.text.joined()
    return merged


def _is_progress(entry: _Entry) -> bool:
    return isinstance(entry, Activity) and entry.kind == "progress"


def _seq(entry: _Entry) -> int:
    return entry.seq
