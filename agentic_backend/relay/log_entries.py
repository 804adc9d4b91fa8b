"""The entries of an exchange's log: events, and deltas as runs of text, which can be merged."""

from collections.abc import Sequence
from dataclasses import dataclass

from agentic_backend.growing_text import GrowingText
from agentic_backend.protocol.events import Activity, ExchangeEvent
from agentic_backend.protocol.messages import Channel


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
    """Progress events in a row that were left out: how many, and the seq of the last of them."""

    seq: int
    count: int


Entry = TextRun | LeftOut | ExchangeEvent


def merged(entries: Sequence[Entry], *, last_progress_only: bool) -> list[Entry]:
    """`entries` with the text between two events merged per block; perhaps only the last progress event."""
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


def _is_progress(entry: Entry) -> bool:
    return isinstance(entry, LeftOut) or (isinstance(entry, Activity) and entry.kind == "progress")


def seq_of(entry: Entry) -> int:
    return entry.seq
