"""Repeats: limits repeated log records to a few a minute, each with the number of occurrences."""

import logging
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_EVERY_S = 60.0
_KEYS_AT_MOST = 1_000
_RECORDS_AT_MOST = 60
# The loggers whose records a client can trigger without limit.
_LOGGERS = (
    "agentic_backend.server.bounded_http",
    "agentic_backend.transports.chatbot_controller",
    "agentic_backend.transports.connection",
    "agentic_backend.transports.rest_calls",
    "agentic_backend.transports.rest_errors",
    "agentic_backend.transports.sse",
    "uvicorn.error",
)


@dataclass(slots=True)
class _Told:
    minute_began: float
    told: int = 0
    untold: int = 0


class Repeats:
    """Counts occurrences by key, and reports each key `at_most` times a minute."""

    def __init__(self, at_most: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_most = at_most
        self._clock = clock
        self._told: dict[Hashable, _Told] = {}

    def count(self, key: Hashable, times: int = 1) -> int:
        """Count an occurrence; return the number since the last report, or 0 if it is not to be reported now."""
        now = self._clock()
        if key not in self._told and len(self._told) >= _KEYS_AT_MOST:
            self._told.clear()
        told = self._told.setdefault(key, _Told(now))
        if now - told.minute_began >= _EVERY_S:
            told.minute_began, told.told = now, 0
        told.untold += times
        if told.told >= self._at_most:
            return 0
        told.told += 1
        untold, told.untold = told.untold, 0
        return untold

    def untold(self) -> Iterator[tuple[Hashable, int]]:
        """The keys with unreported occurrences, and their number: for a final report."""
        return ((key, told.untold) for key, told in self._told.items() if told.untold)


class _BoundedRecords(logging.Filter):
    """Limits each kind of record to _RECORDS_AT_MOST a minute; the next one has the number dropped in `count`."""

    def __init__(self) -> None:
        super().__init__()
        self._repeats = Repeats(_RECORDS_AT_MOST)

    def filter(self, record: logging.LogRecord) -> bool:
        kind = (record.name, record.msg, getattr(record, "code", None))
        times = self._repeats.count(kind, getattr(record, "count", 1))
        if times > 1:
            record.count = times
        return times > 0


@contextmanager
def bounded_records() -> Iterator[None]:
    """While inside, bound the records per minute and kind, so that no client can fill the disk with logs."""
    bound = _BoundedRecords()
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(bound)
    try:
        yield
    finally:
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(bound)
