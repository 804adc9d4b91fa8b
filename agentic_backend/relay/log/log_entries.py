"""The entries of an exchange's log: events, and deltas as runs of text, which can be merged."""

from collections.abc import Sequence
from dataclasses import dataclass

from agentic_backend.protocol.events import Activity, ExchangeEvent
from agentic_backend.protocol.messages import Channel
from agentic_backend.text.growing_text import GrowingText


@dataclass(slots=True)
class TextRun:
    """The text of one block's deltas, from `first_seq` to `seq`."""

    first_seq: int
    seq: int
    block: int
    channel: Channel
    text: GrowingText


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Progress events that were left out: how many, and the seq of the last of them."""

    seq: int
    count: int

    @classmethod
    def of(cls, event: Activity) -> "LeftOut":
        """What stands for `event`, which may itself tell how many another instance's log has left out."""
        count = event.data.get("left_out")
        return cls(event.seq, count if type(count) is int and count > 0 else 1)


Entry = TextRun | LeftOut | ExchangeEvent


def merged(entries: Sequence[Entry], *, last_progress_only: bool) -> list[Entry]:
    """`entries` with the text between two events merged per block; perhaps only the last progress event.

    All progress events that were left out become one, in the place of the last of them.
    """
    entries = _left_out_once(entries)
    last_progress = next((entry for entry in reversed(entries) if _is_progress(entry)), None)
    result: list[Entry] = []
    runs: dict[int, TextRun] = {}
    for entry in entries:
        if isinstance(entry, TextRun):
            run = runs.pop(entry.block, None)
            if run is None:
                run = entry
            else:
                run.seq = entry.seq
                run.text.add_all(entry.text)
            runs[entry.block] = run
        elif not last_progress_only or entry is last_progress or not _is_progress(entry):
            result += [*runs.values(), entry]
            runs = {}
    result += runs.values()
    for entry in result:
        if isinstance(entry, TextRun):
            entry.text.joined()
    return result


def _left_out_once(entries: Sequence[Entry]) -> Sequence[Entry]:
    left_out = [entry for entry in entries if isinstance(entry, LeftOut)]
    if len(left_out) < 2:
        return entries
    last = left_out[-1]
    one = LeftOut(last.seq, sum(entry.count for entry in left_out))
    return [one if entry is last else entry for entry in entries if entry is last or not isinstance(entry, LeftOut)]


def _is_progress(entry: Entry) -> bool:
    return isinstance(entry, LeftOut) or (isinstance(entry, Activity) and entry.kind == "progress")


def seq_of(entry: Entry) -> int:
    return entry.seq
