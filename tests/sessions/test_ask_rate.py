"""How often each user may ask: so many times in any minute, each user for himself."""

import pytest

from agentic_backend.errors import RateLimited
from agentic_backend.sessions.asking.ask_rate import AskRate


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_one_ask_too_many_is_refused_until_the_first_is_a_minute_old() -> None:
    clock = Clock()
    rate = AskRate(3, clock)
    for second in range(3):
        clock.now = 1_000.0 + second
        rate.count("alice")
    with pytest.raises(RateLimited) as refused:
        rate.count("alice")
    assert refused.value.retry_after_s == 58
    clock.now += 57.9
    with pytest.raises(RateLimited):
        rate.count("alice")
    clock.now += 0.2
    rate.count("alice")
    with pytest.raises(RateLimited):
        rate.count("alice")


def test_what_is_refused_does_not_count() -> None:
    clock = Clock()
    rate = AskRate(1, clock)
    rate.count("alice")
    for _ in range(100):
        clock.now += 0.5
        with pytest.raises(RateLimited):
            rate.count("alice")
    clock.now += 11
    rate.count("alice")


def test_each_user_counts_for_himself() -> None:
    rate = AskRate(1, Clock())
    for number in range(1_000):
        rate.count(f"user {number}")
    with pytest.raises(RateLimited):
        rate.count("user 7")


def test_without_a_limit_nothing_is_counted() -> None:
    rate = AskRate(None, Clock())
    for _ in range(10_000):
        rate.count("alice")
