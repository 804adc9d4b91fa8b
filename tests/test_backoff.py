"""The delays between attempts."""

from itertools import islice

from agentic_backend.backoff import backoff


def test_delays_double_up_to_the_longest_and_none_is_less_than_half() -> None:
    for _ in range(100):
        for delay_s, whole_s in zip(backoff(0.5, 3.0), (0.5, 1.0, 2.0, 3.0, 3.0, 3.0), strict=False):
            assert whole_s / 2 <= delay_s <= whole_s


def test_two_that_fail_at_the_same_moment_come_back_at_different_moments() -> None:
    assert list(islice(backoff(1.0, 30.0), 5)) != list(islice(backoff(1.0, 30.0), 5))


def test_delays_never_end_and_never_overflow() -> None:
    assert next(islice(backoff(0.1, 2.0), 5_000, None)) <= 2.0
