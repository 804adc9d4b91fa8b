"""The event log of one exchange, and the cursors that read it.

Append-only; its exchange is the only writer. There is no queue per client: a cursor is a place in the log, and a slow
reader gets adjacent deltas merged into one. A long log merges text that all cursors have read, or none, so that memory
grows with the length of the text and not with the number of tokens. Of the progress events that all have read only the
last is kept; of the others, the oldest are left out beyond a number and a number of bytes, and counted.
A place inside merged text can't be read from: its reader gets a `reset`, never the same text twice.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from sys import getsizeof
from typing import Literal

from agentic_backend.protocol.events import (
    Activity,
    AwaitingHuman,
    Delta,
    ExchangeEvent,
    Final,
    PartialText,
    Place,
    Reset,
    Stream,
)
from agentic_backend.protocol.messages import Channel, ChatMessage
from agentic_backend.protocol.seq import epoch_of, is_beginning
from agentic_backend.relay.log.log_entries import Entry, LeftOut, TextRun, merged, seq_of
from agentic_backend.text.growing_text import GrowingText

Replay = Literal["live", "reset", "replayed"]
"""What a reader gets first: only new events, a `reset`, or earlier events."""

COMPACT_AFTER = 512
"""Entries that a log grows by, at least, before its text that all have read is merged."""

_UNKNOWN = -1
# Estimated bytes of a list entry, and of an event's objects without its texts.
_REFERENCE, _OBJECTS = 8, 3_200


MOST_PROGRESS, MOST_PROGRESS_BYTES = 5_000, 1024 * 1024
"""The most unread progress events of one exchange, and their bytes as JSON."""


class UnreadProgress:
    """The progress events of a log that not every reader has read, within bounds. Owned by its log."""

    def __init__(self) -> None:
        # The seq and the bytes of each event, oldest first.
        self._events: deque[tuple[int, int]] = deque()
        self._bytes = 0

    def add(self, event: Activity, read_by_all: int) -> list[int]:
        """Note a new event; return the seqs of the oldest ones, which no longer fit.

        All readers have everything up to `read_by_all`.
        """
        while self._events and self._events[0][0] <= read_by_all:
            self._drop()
        size = len(event.model_dump_json())
        self._events.append((event.seq, size))
        self._bytes += size
        left_out = []
        while len(self._events) > MOST_PROGRESS or (self._bytes > MOST_PROGRESS_BYTES and len(self._events) > 1):
            left_out.append(self._drop())
        return left_out

    def clear(self) -> None:
        self._events.clear()
        self._bytes = 0

    def _drop(self) -> int:
        seq, size = self._events.popleft()
        self._bytes -= size
        return seq


class OpenTexts:
    """The texts of the messages that are not complete yet, in the entries of a log.

    Their lengths are kept beside the entries: a log may have thousands, and few of them are open.
    """

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


class Cursor:
    """A reader's place: it has everything up to `position`. New events call `wake`.

    New text of a partial message calls `wake_for_text` instead, so that the reader may let text gather.
    """

    def __init__(
        self, log: "ExchangeLog", position: int, wake: Callable[[], None], wake_for_text: Callable[[], None]
    ) -> None:
        self.log = log
        self.position = position
        """The seq up to which the reader has everything; _UNKNOWN if the log does not know that place."""
        self.wake = wake
        self.wake_for_text = wake_for_text
        self.was_unreached = False
        """Whether the log did not reach this place at the last call of `give_up_unreached`."""

    def take(self) -> list[ExchangeEvent]:
        """Return the events after the cursor's place, and move it behind them."""
        events = self.log.read(self.position)
        if events:
            self.position = events[-1].seq
        return events


class ExchangeLog:
    """The events of an exchange so far, and the cursors of its readers."""

    def __init__(
        self,
        session_id: str | None,
        exchange_id: str,
        *,
        user_id: str = "",
        compact_after: int | None = None,
    ) -> None:
        """`session_id` is None for a query; `user_id` is the exchange's user. `compact_after`: else COMPACT_AFTER."""
        self.session_id = session_id
        self.exchange_id = exchange_id
        self.user_id = user_id
        self.last_seq = 0
        """The seq of the last event; 0 if there is none."""
        self.final: Final | None = None
        """The exchange's end, once it is in the log."""
        self.is_stored_final = False
        """Whether the log holds only a final from the store: a reader gets that from any place."""
        self.is_filling = False
        """Whether earlier events of another instance are still being copied; until then readers wait."""
        self.is_mirrored = False
        """Whether another instance fills it. It then lags behind the owner's log: a reader with a place beyond its end
        waits until the log reaches that place, and so never sees an event twice."""
        self._ended = asyncio.Event()
        """Set with `final`."""
        self._entries: list[Entry] = []
        """The events by seq; deltas are kept as runs of text."""
        self._open_texts = OpenTexts()
        self._before: list[ChatMessage] = []
        """The messages before the first entry, if the log was restarted."""
        self._begins_after = 0
        """The seq of the `reset` that restarted the log: places before it can't be read."""
        self._began_anew = False
        """Whether the log was restarted: the events before the first entry are not here."""
        self._cursors: set[Cursor] = set()
        """The readers' cursors."""
        self._read_up_to = 0
        """The highest place that any reader has reached; text after it is unread and can be merged."""
        self._unread_progress = UnreadProgress()
        """The progress events that not every reader has read."""
        self._compact_after = COMPACT_AFTER if compact_after is None else compact_after
        """The least number of new entries after which text is merged again."""
        self._compact_at = self._compact_after
        """The number of entries at which text is merged next."""

    @classmethod
    def of_final(cls, final: Final, user_id: str) -> "ExchangeLog":
        """The log of an ended exchange whose events are no longer kept: it holds only the final."""
        log = cls(final.session_id, final.exchange_id, user_id=user_id)
        log.is_stored_final = True
        log.take_over(final)
        return log

    def follow(
        self, after_seq: int, wake: Callable[[], None], wake_for_text: Callable[[], None] | None = None
    ) -> Cursor:
        """A cursor that has everything up to `after_seq`; release it with `unfollow`."""
        # A place beyond the end is unknown, even if the log grows past it before the first read. Place 0 of a
        # restarted log is unknown too: its first events are not here.
        is_unknown = self._is_beyond(after_seq) or (after_seq == 0 and self._began_anew)
        position = 0 if self.is_stored_final else _UNKNOWN if is_unknown else after_seq
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
        """Whether the last event is `awaiting_human`."""
        return bool(self._entries) and isinstance(self._entries[-1], AwaitingHuman)

    @property
    def size(self) -> int:
        """Its memory in bytes, roughly. Call it once: it visits every event."""
        runs = [entry for entry in self._entries if isinstance(entry, TextRun)]
        texts = sum(getsizeof(part) + _REFERENCE for run in runs for part in run.text.parts)
        # A final shares its messages with the events before it.
        told = [entry for entry in self._entries if not isinstance(entry, TextRun | LeftOut | Final)]
        events = sum(len(value.model_dump_json()) for value in [*told, *self._before])
        return texts + events + _OBJECTS * (len(self._entries) - len(runs) + len(self._before))

    async def wait_ended(self) -> None:
        """Wait until the final is in the log."""
        await self._ended.wait()

    def next_place(self) -> Place:
        """The next event's place (`session_id`, `exchange_id`, `seq`), as keyword arguments for its constructor."""
        return {"session_id": self.session_id, "exchange_id": self.exchange_id, "seq": self.last_seq + 1}

    def append(self, event: ExchangeEvent) -> None:
        """Add an event, whose seq must be the next one, and wake the readers."""
        assert event.seq == self.last_seq + 1, "an event goes to the next place"
        self.last_seq = event.seq
        self._append(event)

    def append_text(self, block: int, channel: Channel, text: str) -> None:
        """Add text of the partial message in `block`."""
        self._append_text(self.last_seq + 1, block, channel, text)

    def _append_text(self, seq: int, block: int, channel: Channel, text: str) -> None:
        """Add text that covers the seqs from the next one to `seq`."""
        first_seq, self.last_seq = self.last_seq + 1, seq
        last = self._entries[-1] if self._entries else None
        # While the log is filling, a reader's place may be at any seq.
        is_unread = isinstance(last, TextRun) and last.first_seq > self._read_up_to and not self.is_filling
        if isinstance(last, TextRun) and is_unread and last.block == block:
            last.text.add(text)
            last.seq = seq
        else:
            self._add(TextRun(first_seq, seq, block, channel, GrowingText(text)))
        self._open_texts.add(block, text)
        for cursor in self._cursors:
            cursor.wake_for_text()

    def take_over(self, event: ExchangeEvent) -> None:
        """Add an event of another instance's log under its own seq, which must be above `last_seq`.

        A `reset` replaces all earlier events.
        """
        if isinstance(event, Delta):
            # The other log may have merged it: it covers all seqs since the event before.
            self._append_text(event.seq, event.block, event.channel, event.text)
        elif isinstance(event, Reset):
            self.start_anew(event.messages, event.partial, event.seq)
        else:
            self.last_seq = event.seq
            self._append(event)

    def start_anew(self, messages: Sequence[ChatMessage], partial: Sequence[PartialText], seq: int) -> None:
        """Restart the log at `seq`: all readers get a `reset` with these messages and this partial text."""
        self._before, self._begins_after, self._began_anew = list(messages), seq, True
        self.last_seq = self._read_up_to = seq
        self._unread_progress.clear()
        self._entries = [TextRun(seq, seq, text.block, text.channel, GrowingText(text.text)) for text in partial]
        self._open_texts.begin_anew(partial)
        self.filled()

    def filled(self) -> None:
        """Wake the readers: all earlier events of the other instance are here."""
        self.is_filling = False
        for cursor in self._cursors:
            cursor.wake()

    def jump_to(self, seq: int) -> None:
        """Continue above `seq`, which other logs of the same exchange may have reached."""
        self.last_seq = max(self.last_seq, seq)

    def give_up_unreached(self) -> None:
        """Give a `reset` to readers that have waited since the last call for a place that the log has not reached."""
        for cursor in self._cursors:
            is_unreached = not self.is_filling and cursor.position > self.last_seq
            if is_unreached and cursor.was_unreached:
                cursor.position = _UNKNOWN
                cursor.wake()
            cursor.was_unreached = is_unreached

    def end_with(self, final: Final) -> None:
        """End a log that missed the exchange's last events: all readers get a `reset` and the `final`."""
        seq = max(final.seq, self.last_seq + 2)
        self.start_anew(final.messages, (), seq - 1)
        self.take_over(final.model_copy(update={"seq": seq}))

    def replace_final(self, final: Final) -> None:
        """Show later readers another final at the same place."""
        self._entries = [final if entry is self.final else entry for entry in self._entries]
        self.final = final

    def _append(self, event: ExchangeEvent) -> None:
        self._add(event)
        if isinstance(event, Stream):
            self._open_texts.complete(event.block)
        elif isinstance(event, Final):
            self.final = event
            self._ended.set()
        for cursor in self._cursors:
            cursor.wake()

    def read(self, after_seq: int) -> list[ExchangeEvent]:
        """The events after `after_seq`; if that place can't be read or is unknown, a `reset` instead."""
        replay = self.replay_from(after_seq)
        if replay == "live":
            return []
        self._read_up_to = self.last_seq
        if replay == "reset":
            return self._start_anew()
        start = bisect_right(self._entries, after_seq, key=seq_of)
        events: list[ExchangeEvent] = []
        texts: list[str] = []
        for index in range(start, len(self._entries)):
            entry = self._entries[index]
            if not isinstance(entry, TextRun):
                events.append(self._left_out(entry) if isinstance(entry, LeftOut) else entry)
                continue
            texts.append(entry.text.joined())
            following = self._entries[index + 1] if index + 1 < len(self._entries) else None
            if not isinstance(following, TextRun) or following.block != entry.block:
                events.append(self._delta(entry, "".join(texts)))
                texts = []
        return events

    def replay_from(self, after_seq: int) -> Replay:
        """What `read` would return: nothing yet, a reset, or the events after `after_seq`."""
        if after_seq == _UNKNOWN:
            return "live" if self.is_filling else "reset"
        if after_seq == self.last_seq or self.is_filling:
            return "live"
        if after_seq > self.last_seq:
            return "reset" if self._is_beyond(after_seq) else "live"
        start = bisect_right(self._entries, after_seq, key=seq_of)
        is_lost = after_seq < self._begins_after or self._inside_run(start, after_seq)
        return "reset" if is_lost or self._is_elsewhere(start, after_seq) else "replayed"

    @property
    def messages(self) -> list[ChatMessage]:
        """The exchange's messages so far, by rank."""
        return [*self._before, *(entry.message for entry in self._entries if isinstance(entry, Stream))]

    @property
    def partial(self) -> list[PartialText]:
        """The text of the messages that are not complete yet, by block."""
        return self.partial_after({})

    @property
    def partial_lengths(self) -> dict[int, int]:
        """How many characters that text has, by block."""
        return self._open_texts.lengths

    def partial_after(self, lengths: Mapping[int, int]) -> list[PartialText]:
        """What that text has behind so many characters, by block."""
        return self._open_texts.after(self._entries, lengths)

    def _is_beyond(self, after_seq: int) -> bool:
        """Whether the place lies beyond the end, and the log will not reach it."""
        will_grow = self.is_filling or (self.is_mirrored and self.final is None)
        return after_seq > self.last_seq and not will_grow

    def _is_elsewhere(self, start: int, after_seq: int) -> bool:
        """Whether this place, before the entry at `start`, belongs to another log of the exchange.

        An owner may have shown events that never came here; and at the beginning of an epoch stands a view that was
        built from the store alone.
        """
        if after_seq in (0, self._begins_after) or (start > 0 and self._entries[start - 1].seq == after_seq):
            return False
        following = self._entries[start] if start < len(self._entries) else None
        next_seq = following.first_seq if isinstance(following, TextRun) else following.seq if following else None
        return is_beginning(after_seq) or epoch_of(after_seq) != epoch_of(next_seq or self.last_seq)

    def _inside_run(self, start: int, after_seq: int) -> bool:
        for entry in self._entries[start:]:
            if not isinstance(entry, TextRun):
                return False
            if entry.first_seq <= after_seq:
                return True
        return False

    def _start_anew(self) -> list[ExchangeEvent]:
        """A `reset`, then the last event if that is a final or an `awaiting_human`, which no reset contains."""
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

    def _delta(self, run: TextRun, text: str) -> Delta:
        return Delta(
            session_id=self.session_id,
            exchange_id=self.exchange_id,
            seq=run.seq,
            block=run.block,
            channel=run.channel,
            text=text,
        )

    def _left_out(self, entry: LeftOut) -> Activity:
        data = {"left_out": entry.count}
        place = Place(session_id=self.session_id, exchange_id=self.exchange_id, seq=entry.seq)
        return Activity(**place, kind="progress", data=data)

    @property
    def _read_by_all(self) -> int:
        """The place up to which all readers have everything."""
        return min((cursor.position for cursor in self._cursors), default=self._read_up_to)

    def _leave_out(self, seq: int) -> None:
        """Leave out the progress event at `seq`; one entry counts those in a row, unless a reader stands between."""
        index = bisect_right(self._entries, seq, key=seq_of) - 1
        event = self._entries[index] if index >= 0 else None
        if not isinstance(event, Activity) or event.seq != seq:
            return
        left_out = LeftOut.of(event)
        before = self._entries[index - 1] if index else None
        if isinstance(before, LeftOut) and not any(before.seq <= cursor.position < seq for cursor in self._cursors):
            self._entries[index - 1 : index + 1] = [LeftOut(seq, before.count + left_out.count)]
        else:
            self._entries[index] = left_out

    def _add(self, entry: Entry) -> None:
        self._entries.append(entry)
        if isinstance(entry, Activity) and entry.kind == "progress":
            for seq in self._unread_progress.add(entry, self._read_by_all):
                self._leave_out(seq)
        if len(self._entries) >= self._compact_at:
            self._compact()

    def _compact(self) -> None:
        """Merge the text that every cursor has read, and the text that no cursor has reached."""
        read = bisect_right(self._entries, self._read_by_all, key=seq_of)
        unread = bisect_right(self._entries, self._read_up_to, key=seq_of)
        between = self._entries[read:unread]
        self._entries = [
            *merged(self._entries[:read], last_progress_only=True),
            *between,
            *merged(self._entries[unread:], last_progress_only=False),
        ]
        # The longer what can't be merged, the rarer: every pass visits all entries.
        self._compact_at = len(self._entries) + max(len(self._entries), self._compact_after)
