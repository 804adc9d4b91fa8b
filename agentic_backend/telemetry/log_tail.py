"""LogTail: the latest lines of the log, in memory."""

import logging
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from agentic_backend.telemetry.formatters import LONGEST_LINE, TailFormatter
from agentic_backend.telemetry.ids import WithIds
from agentic_backend.telemetry.origin import OursOrWarnings
from agentic_backend.telemetry.throttled_handler import ThrottledHandler

_TAIL_LINES = 500
# Characters of all texts of a record that is kept as it is.
_SHORT = 2_000
_PLAIN = frozenset({str, int, float, bool, type(None)})


class LogTail(ThrottledHandler):
    """The latest log lines, kept in memory for the operators.

    The application attaches one while it is open. Bounded in the number and length of lines. Lines become text when
    somebody reads them, which few ever do.
    """

    def __init__(self, packages: Collection[str] = (), secrets: Collection[str] = ()) -> None:
        super().__init__(TailFormatter(secrets))
        self.addFilter(OursOrWarnings(packages))
        self.addFilter(WithIds())
        self._lines: deque[str | dict[str, Any]] = deque(maxlen=_TAIL_LINES)
        """The latest lines, oldest first; of records that are small and plain, what they hold."""

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Collect log lines while the context is open."""
        root = logging.getLogger()
        root.addHandler(self)
        try:
            yield
        finally:
            root.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if not _is_plain(record):
            super().emit(record)
            return
        self._summarise()
        # A copy: another handler may change the record.
        self._lines.append(vars(record).copy())

    def put(self, line: str) -> None:
        self._lines.append(line[:LONGEST_LINE])

    def text(self) -> str:
        """The lines, oldest first, each with a line feed."""
        self._summarise()
        lines = [line if isinstance(line, str) else self._line_of(line) for line in list(self._lines)]
        return "".join(f"{line}\n" for line in lines)

    def _line_of(self, held: dict[str, Any]) -> str:
        try:
            return self.format(logging.makeLogRecord(held))[:LONGEST_LINE]
        except Exception:
            # Whoever made the record may have put in anything.
            return '{"message":"a record that can not be shown"}'


def _is_plain(record: logging.LogRecord) -> bool:
    """Whether a record may become a line later: it is small, and holds neither an exception nor what changes."""
    values = [value for name, value in vars(record).items() if name != "args"]
    if type(record) is not logging.LogRecord or record.args or record.exc_info:
        return False
    if not _PLAIN.issuperset(map(type, values)):
        return False
    return sum(len(value) for value in values if isinstance(value, str)) <= _SHORT
