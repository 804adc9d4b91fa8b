"""Reports how long each operation of a store takes, and whether the store answered."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentic_backend.errors import StoreUnavailable

Observer = Callable[[str, float, bool], None]
"""Called after each operation of a store with its name, its duration in seconds, and whether the store answered."""


@contextmanager
def observed(observe: Observer | None, operation: str) -> Iterator[None]:
    """Report the operation in this context to `observe`."""
    began, answered = time.perf_counter(), True
    try:
        yield
    except StoreUnavailable:
        answered = False
        raise
    finally:
        if observe is not None:
            observe(operation, time.perf_counter() - began, answered)
