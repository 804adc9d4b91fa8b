"""Repeats: what may happen over and over is told a few times a minute, with how often it did."""

import logging
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_EVERY_S = 60.0
_KEYS_AT_MOST = 1_000
_RECORDS_AT_MOST = 60
# Whose records clients can bring about as often as they like.
_LOGGERS = (
    "agentic_backend.transports.bounded_http",
    "agentic_backend.transports.chatbot_controller",
    "agentic_backend.transports.connection",
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
    """Each key is told `at_most` times in a minute."""

    def __init__(self, at_most: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_most = at_most
        self._clock = clock
        self._told: dict[Hashable, _Told] = {}

    def count(self, key: Hashable, times: int = 1) -> int:
        """How often it has happened since it was told last; 0 where that is not to be told now."""
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
        """What has happened and was never told, when nothing follows any more."""
        return ((key, told.untold) for key, told in self._told.items() if told.untold)


class _BoundedRecords(logging.Filter):
    """Lets through so many records of a kind; the next one after that has the number of those left out in `count`."""

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
    """No client fills the disk with the log while inside: a minute has a bound for each kind of record."""
    bound = _BoundedRecords()
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(bound)
    try:
        yield
    finally:
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(bound)
