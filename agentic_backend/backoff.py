"""Exponential backoff with jitter: the delays before retries."""

import random
from collections.abc import Iterator


def backoff(first_s: float, longest_s: float) -> Iterator[float]:
    """The delays in seconds after consecutive failures, without end. After a success, start a new iterator.

    The delay doubles from `first_s` up to `longest_s`. A random value between half of it and the whole ("equal jitter")
    keeps callers that failed together from retrying together:
    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    delay_s = first_s
    while True:
        yield random.uniform(delay_s / 2, delay_s)
        delay_s = min(2 * delay_s, longest_s)
