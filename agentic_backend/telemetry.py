"""Logs: lines with the related ids, as JSON or for people at a terminal; never tokens, never message texts.

Other packages are logged from level warning up, whatever level they set: below that they quote requests.
"""

import json
import logging
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Literal

from agentic_backend.exception_detail import causes_of, frames_of
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
_MOST_CAUSES, _MOST_FRAMES, _LONGEST_SOURCE = 8, 12, 200
# What remains of each text and place, and how many of the places, where a line's exception is shortened.
_SHORT_TEXT, _FEW_FRAMES = 200, 2
# What the lines for people show in a form of their own.
_HEAD = ("time", "level", "logger", "message")

LogForm = Literal["auto", "json", "console"]
Told = Callable[[BaseException, Sequence[traceback.FrameSummary]], str]
"""What may be logged of an exception's text, given the frames that are logged with it."""


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
        if "exception" not in line and record.exc_info and record.exc_info[1] is not None:
            line["exception"] = story_of(record.exc_info[1])
        return self.rendered(line)

    def rendered(self, line: Mapping[str, Any]) -> str:
        # In ASCII, so that any text can be written, even lone surrogates.
        return json.dumps(line, default=str, separators=(",", ":"))


class ConsoleFormatter(JsonFormatter):
    """The same for people at a terminal: a line for the time, the level and the message, then an exception's lines."""

    def rendered(self, line: Mapping[str, Any]) -> str:
        rest = {key: value for key, value in line.items() if key not in _HEAD}
        exception = rest.pop("exception", None)
        head = f"{str(line['time'])[11:23]} {line['level']:<8} {line['message']}"
        fields = "  ".join(f"{key}={_in_one_line(value)}" for key, value in rest.items() if value is not None)
        story = _told_at_length(exception) if isinstance(exception, list) else []
        text = "\n".join(["  ".join(filter(None, [_in_one_line(head), fields])), *story])
        # A terminal must not obey what an exception's text contains.
        return "".join(sign if sign.isprintable() or sign == "\n" else f"\\x{ord(sign):02x}" for sign in text)


class TailFormatter(JsonFormatter):
    """JSON of bounded length: what is too long is shortened in its exception, from the farthest cause on."""

    def rendered(self, line: Mapping[str, Any]) -> str:
        text = super().rendered(line)
        story = line.get("exception")
        if len(text) <= _LONGEST_LINE or not isinstance(story, list):
            return text
        short = [_shortened(told) for told in story]
        while len(text := super().rendered({**line, "exception": short})) > _LONGEST_LINE and short:
            short.pop()
        return text


def _shortened(told: Mapping[str, Any]) -> dict[str, Any]:
    """One exception of a story."""
    texts = {"text": told["text"][:_SHORT_TEXT]} if "text" in told else {}
    return {**told, **texts, "at": [place[:_SHORT_TEXT] for place in told["at"][-_FEW_FRAMES:]]}


def _in_one_line(value: object) -> str:
    return (value if isinstance(value, str) else json.dumps(value, default=str)).replace("\n", "\\n")


def _told_at_length(exception: Sequence[Any]) -> Iterator[str]:
    """An exception and its causes; each with its type and text, then its places, the innermost last."""
    for number, told in enumerate(exception):
        kind = f"  {'caused by ' if number else ''}{told['type'].removeprefix('builtins.')}"
        yield f"{kind}: {told['text']}".replace("\n", "\n    ") if told.get("text") else kind
        yield from (f"    at {place}" for place in told["at"])


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


def story_of(error: BaseException, told: Told | None = None) -> list[dict[str, object]]:
    """`error`, the members of groups, and their causes: types, places, status codes.

    Their texts are in it as `told` gives them; without it there are none, because they may quote a message or a token.
    """
    story: list[dict[str, object]] = []
    for cause in islice(causes_of(error), _MOST_CAUSES):
        frames = frames_of(cause, _MOST_FRAMES)
        entry: dict[str, object] = {"type": f"{type(cause).__module__}.{type(cause).__qualname__}"}
        if told is not None:
            entry["text"] = told(cause, frames)
        entry["at"] = [_place_of(frame, with_source=told is not None) for frame in frames]
        numbers = {name: getattr(cause, name, None) for name in ("errno", "status_code")}
        story.append(entry | {name: number for name, number in numbers.items() if isinstance(number, int)})
    return story


def _place_of(frame: traceback.FrameSummary, *, with_source: bool) -> str:
    place = f"{frame.filename}:{frame.lineno} {frame.name}"
    return f"{place}: {frame.line[:_LONGEST_SOURCE]}" if with_source and frame.line else place


def configure_logging(level: str, packages: Collection[str] = (), form: LogForm = "auto") -> None:
    """Log to standard error; records of the server and of `packages` from `level` up.

    `form` is JSON lines, or lines for people; `auto` is for people if standard error is a terminal.
    Python's warnings and uncaught errors are logged too: Python's own output could quote anything.
    """
    handler = logging.StreamHandler(sys.stderr)
    for_people = form == "console" or (form == "auto" and sys.stderr.isatty())
    handler.setFormatter(ConsoleFormatter() if for_people else JsonFormatter())
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
        self.setFormatter(TailFormatter())
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
