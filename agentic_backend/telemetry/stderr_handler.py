"""StderrHandler: log records on standard error, throttled, without waiting for whoever reads them."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from agentic_backend.telemetry.line_writer import LineWriter
from agentic_backend.telemetry.origin import OURS
from agentic_backend.telemetry.throttled_handler import ThrottledHandler

DROPPED = "log lines dropped"
"""The event that tells how many lines did not fit into the queue, because the reader was too slow."""


class StderrHandler(ThrottledHandler):
    """Owned by the process (see configure_logging)."""

    def __init__(self, descriptor: int, formatter: logging.Formatter) -> None:
        super().__init__(formatter)
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

    def put(self, line: str) -> None:
        self._writer.write(line)

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if record.levelno >= logging.CRITICAL:
            self._writer.flush()

    def flush(self) -> None:
        """Write what is left, and what was suppressed until now."""
        self._summarise(at_end=True)
        self._writer.flush()

    def _dropped(self, count: int) -> str:
        fields = {"name": f"{OURS}.telemetry", "levelno": logging.WARNING, "levelname": "WARNING", "msg": DROPPED}
        return self.format(logging.makeLogRecord({**fields, "count": count}))
