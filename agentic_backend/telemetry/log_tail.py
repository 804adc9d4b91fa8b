"""LogTail: the latest lines of the log, in memory."""

import logging
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from agentic_backend.telemetry.formatters import LONGEST_LINE, TailFormatter
from agentic_backend.telemetry.ids import WithIds
from agentic_backend.telemetry.origin import OursOrWarnings
from agentic_backend.telemetry.throttled_handler import ThrottledHandler

_TAIL_LINES = 500


class LogTail(ThrottledHandler):
    """The latest log lines, kept in memory for the operators.

    The application attaches one while it is open. Bounded in the number and length of lines.
    """

    def __init__(self, packages: Collection[str] = (), secrets: Collection[str] = ()) -> None:
        super().__init__(TailFormatter(secrets))
        self.addFilter(OursOrWarnings(packages))
        self.addFilter(WithIds())
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

    def put(self, line: str) -> None:
        self._lines.append(line[:LONGEST_LINE])

    def text(self) -> str:
        """The lines, oldest first, each with a line feed."""
        self._summarise()
        return "".join(f"{line}\n" for line in list(self._lines))
