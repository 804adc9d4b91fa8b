"""StderrHandler: log records on standard error, throttled, without waiting for whoever reads them."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from agentic_backend.telemetry.line_writer import LineWriter
from agentic_backend.telemetry.origin import OURS
from agentic_backend.telemetry.throttle import Throttle

DROPPED = "log lines dropped"
"""The event that tells how many lines did not fit into the queue, because the reader was too slow."""


class StderrHandler(logging.Handler):
    """Owned by the process (see configure_logging)."""

    def __init__(self, descriptor: int, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._throttle = Throttle()
        self._writer = LineWriter(descriptor, self._dropped, tick=self._summarise)

    @contextmanager
    def in_background(self) -> Iterator[None]:
        """Write in a thread while the context is open. Enter it only where the process forks no more."""
        with self._writer.in_background():
            try:
                yield
            finally:
                # A forked process ends without the exit handlers that flush other ones.
                self.flush()

    def filter(self, record: logging.LogRecord) -> bool:
        # Last, so that it counts only what would be written.
        return bool(super().filter(record)) and self._throttle.filter(record)

    def emit(self, record: logging.LogRecord) -> None:
        # As in the standard library's handlers: a formatting error must not reach the caller.
        try:
            self._summarise()
            self._writer.write(self.format(record))
            if record.levelno >= logging.CRITICAL:
                self._writer.flush()
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Write what is left, and what was suppressed until now."""
        self._summarise(at_end=True)
        self._writer.flush()

    def _summarise(self, *, at_end: bool = False) -> None:
        for record in self._throttle.summaries(at_end=at_end):
            self._writer.write(self.format(record))

    def _dropped(self, count: int) -> str:
        fields = {"name": f"{OURS}.telemetry", "levelno": logging.WARNING, "levelname": "WARNING", "msg": DROPPED}
        return self.format(logging.makeLogRecord({**fields, "count": count}))
