"""Unread progress: how much of it a log keeps, and how it tells of the rest."""

import pytest
from support.broadcasting import a_log, progress, say

from agentic_backend.protocol.events import Activity, Delta
from agentic_backend.relay.log.exchange_log import MOST_PROGRESS


def test_progress_that_nobody_reads_keeps_no_text_in_pieces() -> None:
    log = a_log(compact_after=100)
    for step in range(3 * MOST_PROGRESS):
        say(log, "ab ")
        progress(log, step)
    assert len(log._entries) <= 4 * MOST_PROGRESS + 100, "what is left out takes no memory, nor the text around it"
    events = log.read(0)
    told_of = [event.data for event in events if isinstance(event, Activity)]
    left_out = [data["left_out"] for data in told_of if "left_out" in data]
    assert sum(left_out) + len(told_of) - len(left_out) == 3 * MOST_PROGRESS
    assert [data["step"] for data in told_of[-MOST_PROGRESS:]] == list(range(2 * MOST_PROGRESS, 3 * MOST_PROGRESS))
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "ab " * 3 * MOST_PROGRESS
    assert [event.seq for event in events] == sorted(event.seq for event in events)


@pytest.mark.parametrize(("told", "counted"), [(23, 23), ("many", 1), (True, 1), (-5, 1)])
def test_what_another_log_has_left_out_counts_as_so_many(told: object, counted: int) -> None:
    log = a_log()
    log.take_over(Activity(**log.next_place(), kind="progress", data={"left_out": told}))
    for _ in range(MOST_PROGRESS):
        progress(log, 0)
    assert isinstance(first := log.read(0)[0], Activity) and first.data == {"left_out": counted}
