"""Refusals of one person: over the last minute, with a bounded number of people."""

import logging

import pytest

from agentic_backend.kpi.groups.refusals import RecentCounts, RefusalMetrics
from agentic_backend.kpi.registry import MetricsRegistry


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_minute_slides() -> None:
    clock = Clock()
    counts = RecentCounts(clock)
    for _ in range(40):
        counts.count("mallory")
    counts.count("alice")
    assert counts.most() == ("mallory", 40)
    clock.now += 75
    assert counts.most() == ("mallory", 30), "of the minute before three quarters are still in it"
    assert counts.count("mallory") == 31
    clock.now += 60
    assert counts.most()[1] < 1
    clock.now += 600
    assert counts.most() == ("", 0)


def test_a_crowd_takes_a_bounded_room_and_hides_nobody_for_longer_than_a_minute() -> None:
    clock = Clock()
    counts = RecentCounts(clock)
    for number in range(5_000):
        counts.count(f"person {number}")
    assert counts.count("mallory") == 0
    assert len(counts._now) == 1_000
    clock.now += 60
    for _ in range(10):
        counts.count("mallory")
    assert counts.most() == ("mallory", 10)


def test_the_log_says_once_a_minute_who_is_refused_most(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    refusals = RefusalMetrics(MetricsRegistry(), clock)
    for _ in range(59):
        refusals.refused("rest", "rate_limited", "mallory")
    for _ in range(100):
        refusals.refused("rest", "store_unavailable", "alice")
    assert caplog.records == [], "what is not the client's to mend is nobody's fault"
    for _ in range(2):
        for _ in range(200):
            refusals.refused("frame", "rate_limited", "mallory")
        clock.now += 60
    told = [(vars(record)["user_id"], vars(record)["code"], record.levelno) for record in caplog.records]
    assert told == [("mallory", "rate_limited", logging.WARNING)] * 2
