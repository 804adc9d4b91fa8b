"""What stores tell of their operations."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.base import Observer


@contextmanager
def observed(observe: Observer | None, operation: str) -> Iterator[None]:
    """Tell `observe` how long the operation inside took, and whether the store answered."""
    began, answered = time.perf_counter(), True
    try:
        yield
    except StoreUnavailable:
        answered = False
        raise
    finally:
        if observe is not None:
            observe(operation, time.perf_counter() - began, answered)
