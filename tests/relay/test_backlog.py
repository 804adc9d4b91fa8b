"""Backlog: when a process is overloaded, and until when."""

import logging

import pytest

from agentic_backend.errors import Overloaded
from agentic_backend.relay.backlog import Backlog


class Waits:
    """What waits, in seconds."""

    def __init__(self) -> None:
        self.answer_s = self.stream_s = 0.0
        self.backlog = Backlog({"answer": lambda: self.answer_s, "stream": lambda: self.stream_s}, 3)


@pytest.mark.parametrize("kind", ["answer_s", "stream_s"])
def test_it_begins_beyond_the_limit_and_ends_at_half_of_it(kind: str) -> None:
    waits, found = Waits(), []
    for wait_s in (0, 3, 3.1, 2, 1.6, 1.5, 2.9, 3.1):
        setattr(waits, kind, wait_s)
        found.append(waits.backlog.look())
    assert found == [False, False, True, True, True, False, False, True]
    assert waits.backlog.age_s == 3.1


@pytest.mark.parametrize(("wait_s", "at_least_s", "at_most_s"), [(3.2, 4, 7), (12, 12, 24), (1000, 30, 30)])
def test_who_is_refused_is_told_when_to_ask_again(wait_s: float, at_least_s: int, at_most_s: int) -> None:
    waits, told = Waits(), set()
    waits.backlog.check()
    waits.answer_s = wait_s
    for _ in range(200):
        with pytest.raises(Overloaded) as refusal:
            waits.backlog.check()
        told.add(refusal.value.retry_after_s)
    assert refusal.value.retryable
    assert at_least_s <= min(told) and max(told) <= at_most_s
    assert (len(told) > 1) == (at_least_s < at_most_s), "not all come back together"


def test_the_log_tells_when_it_begins_and_ends_and_what_waits(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    waits = Waits()
    for waits.answer_s in (0, 4, 5, 2, 1, 0.5):
        waits.stream_s = waits.answer_s / 2
        waits.backlog.look()
    assert [record.message for record in caplog.records] == ["overloaded, asks are refused", "no longer overloaded"]
    assert (vars(caplog.records[0])["answer_s"], vars(caplog.records[0])["stream_s"]) == (4, 2)


def test_without_a_limit_nothing_is_refused() -> None:
    Backlog({"answer": lambda: 1e9}).check()
    Backlog().check()
