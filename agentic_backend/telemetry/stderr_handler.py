"""StderrHandler: log records on standard error, throttled, without waiting for whoever reads them."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from agentic_backend.telemetry.line_writer import LineWriter
from agentic_backend.telemetry.origin import OURS
from agentic_backend.telemetry.throttled_handler import ThrottledHandler

DROPPED = "log lines dropped"
"""The event that tells how many lines did not fit into the queue, because the reader was too slow."""
_STALLED_S = 10
"""After how many seconds without a written line the LogTail is told so: it is read where the log is not."""

log = logging.getLogger(__name__)


class StderrHandler(ThrottledHandler):
    """Owned by the process (see configure_logging)."""

    def __init__(self, descriptor: int, formatter: logging.Formatter) -> None:
        super().__init__(formatter)
        self._writer = LineWriter(descriptor, self._dropped, tick=self._look)
        self._has_told = False

    @property
    def lines_lost(self) -> int:
        return self._writer.lines_lost

    @property
    def stalled_s(self) -> float:
        return self._writer.stalled_s

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

    def _look(self) -> None:
        self._summarise()
        is_stalled = self._writer.stalled_s > _STALLED_S
        if is_stalled and not self._has_told:
            log.warning("log not written", extra={"reason": self._writer.stalled_by})
        self._has_told = is_stalled

    def _dropped(self, count: int) -> str:
        fields = {"name": f"{OURS}.telemetry", "levelno": logging.WARNING, "levelname": "WARNING", "msg": DROPPED}
        return self.format(logging.makeLogRecord({**fields, "count": count}))
