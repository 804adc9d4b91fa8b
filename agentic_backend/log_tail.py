"""LogTail: the latest lines of the log, kept in memory for those who look after the server.

The application attaches one for as long as it is open. Bounded: so many lines, each so long.
"""

import logging
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from agentic_backend.telemetry import JsonFormatter, OursOrWarnings

_LINES, _LONGEST_LINE = 500, 4000


class LogTail(logging.Handler):
    def __init__(self, packages: Collection[str] = ()) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.addFilter(OursOrWarnings(packages))
        self._lines: deque[str] = deque(maxlen=_LINES)

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Collect while inside."""
        root = logging.getLogger()
        root.addHandler(self)
        try:
            yield
        finally:
            root.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        # As in the handlers of the standard library: a line that can't be formatted must not end who logs it.
        try:
            self._lines.append(self.format(record)[:_LONGEST_LINE])
        except Exception:
            self.handleError(record)

    def text(self) -> str:
        """The lines, the oldest first, each with a line feed."""
        return "".join(f"{line}\n" for line in list(self._lines))
