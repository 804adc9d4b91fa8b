"""Logs: structured JSON lines with the related ids; never tokens, never message texts.

Other packages are logged from level warning up, whatever level they set: below that they quote requests.
"""

import json
import logging
import sys
import threading
import traceback
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from agentic_backend.protocol.messages import utc_now
from agentic_backend.redaction import redact, redacted, secrets_of

log = logging.getLogger(__name__)

_CONTEXT = ("request_id", "exchange_id", "session_id", "agent_id", "user_id")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_QUOTING_ALL = ("root", "mcp", "client")
_QUOTING = ("asyncio", "langchain_core.callbacks.manager")
_LONGEST_FOREIGN = 1_000
_OURS = "agentic_backend"
_TAIL_LINES, _LONGEST_LINE = 500, 4000


class OursOrWarnings(logging.Filter):
    """Passes records of the server and of `packages`, and warnings or above of all others."""

    def __init__(self, packages: Collection[str] = ()) -> None:
        super().__init__()
        # The packages whose records pass below level warning too.
        self._packages = {_OURS, *packages}

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or _package_of(record) in self._packages


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the record's extras, and an exception's `story_of`.

    It redacts the secrets of this process's environment, and whatever looks like a secret (see redaction).
    """

    def __init__(self) -> None:
        super().__init__()
        # The secrets in this process's environment.
        self._known = secrets_of()

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": utc_now().isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(_message_of(record), self._known),
        }
        extras = redacted({key: value for key, value in vars(record).items() if key not in _STANDARD}, self._known)
        line |= {key: extras.pop(key) for key in _CONTEXT if key in extras}
        line |= extras
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = story_of(record.exc_info[1])
        # In ASCII, so that any text can be written, even lone surrogates.
        return json.dumps(line, default=str, separators=(",", ":"))


def _message_of(record: logging.LogRecord) -> str:
    # These loggers append an exception's text after the first line.
    if record.name in _QUOTING:
        return str(record.msg).partition("\n")[0]
    if _package_of(record) in _QUOTING_ALL:
        # MCP's client, which also uses the root logger, quotes the server's data.
        return f"a library's message, not shown: {record.module}, line {record.lineno}"
    try:
        message = record.getMessage()
    except (TypeError, ValueError, KeyError):
        # The arguments don't match the format. Python's own report would quote them.
        message = str(record.msg)
    return message if _package_of(record) == _OURS else message[:_LONGEST_FOREIGN]


def _package_of(record: logging.LogRecord) -> str:
    return record.name.partition(".")[0]


def story_of(error: BaseException) -> list[dict[str, object]]:
    """`error` and its causes: types, places, status codes; no texts, because they may quote a message or a token."""
    story: list[dict[str, object]] = []
    current: BaseException | None = error
    while current is not None and len(story) < 8:
        frames = traceback.extract_tb(current.__traceback__)
        places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-12:]]
        told = {"type": f"{type(current).__module__}.{type(current).__qualname__}", "at": places}
        numbers = {name: getattr(current, name, None) for name in ("errno", "status_code")}
        story.append(told | {name: number for name, number in numbers.items() if isinstance(number, int)})
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return story


def configure_logging(level: str, packages: Collection[str] = ()) -> None:
    """Log to standard error as JSON lines; records of the server and of `packages` from `level` up.

    Python's warnings and uncaught errors are logged too: Python's own output could quote anything.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(OursOrWarnings(packages))
    own = logging.getLevelName(level.upper())
    handler.setLevel(own)
    logging.basicConfig(level=max(own, logging.WARNING), handlers=[handler], force=True)
    for name in (_OURS, *packages):
        logging.getLogger(name).setLevel(own)
    logging.captureWarnings(True)
    logging.raiseExceptions = False
    sys.excepthook = lambda _, error, __: log.critical("uncaught error", exc_info=error)
    sys.unraisablehook = lambda told: log.error("unraisable error", exc_info=told.exc_value)
    threading.excepthook = _log_of_a_thread


def _log_of_a_thread(told: Any) -> None:
    log.error("uncaught error in a thread", exc_info=told.exc_value)


class LogTail(logging.Handler):
    """The latest log lines, kept in memory for the operators.

    The application attaches one while it is open. Bounded in the number and length of lines.
    """

    def __init__(self, packages: Collection[str] = ()) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.addFilter(OursOrWarnings(packages))
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

    def emit(self, record: logging.LogRecord) -> None:
        # As in the standard library's handlers: a formatting error must not reach the caller.
        try:
            self._lines.append(self.format(record)[:_LONGEST_LINE])
        except Exception:
            self.handleError(record)

    def text(self) -> str:
        """The lines, oldest first, each with a line feed."""
        return "".join(f"{line}\n" for line in list(self._lines))
