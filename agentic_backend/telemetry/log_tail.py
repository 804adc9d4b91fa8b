"""LogTail: the latest lines of the log, in memory."""

import logging
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from agentic_backend.telemetry.formatters import LONGEST_LINE, TailFormatter
from agentic_backend.telemetry.ids import WithIds
from agentic_backend.telemetry.origin import OursOrWarnings
from agentic_backend.telemetry.throttle import Throttle

_TAIL_LINES = 500


class LogTail(logging.Handler):
    """The latest log lines, kept in memory for the operators.

    The application attaches one while it is open. Bounded in the number and length of lines.
    """

    def __init__(self, packages: Collection[str] = (), secrets: Collection[str] = ()) -> None:
        super().__init__()
        self.setFormatter(TailFormatter(secrets))
        self.addFilter(OursOrWarnings(packages))
        self.addFilter(WithIds())
        self._throttle = Throttle()
        # The latest lines, oldest first.
        self._lines: deque[str] = deque(maxlen=_TAIL_LINES)

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Collect log lines while the context is open."""
        root = logging.getLogger()
        root.addHandler(self)
        try:
            yield
        finally:
            root.removeHandler(self)

    def filter(self, record: logging.LogRecord) -> bool:
        # Last, so that it counts only what would be kept.
        return bool(super().filter(record)) and self._throttle.filter(record)

    def emit(self, record: logging.LogRecord) -> None:
        # As in the standard library's handlers: a formatting error must not reach the caller.
        try:
            self._summarise()
            self._lines.append(self.format(record)[:LONGEST_LINE])
        except Exception:
            self.handleError(record)

    def text(self) -> str:
        """The lines, oldest first, each with a line feed."""
        self._summarise()
        return "".join(f"{line}\n" for line in list(self._lines))

    def _summarise(self) -> None:
        for record in self._throttle.summaries():
            self._lines.append(self.format(record)[:LONGEST_LINE])
