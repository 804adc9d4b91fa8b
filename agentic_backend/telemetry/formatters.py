"""Formatters: what a log record looks like as a line, without secrets."""

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from agentic_backend.disclosure.known_secrets import secrets_of
from agentic_backend.disclosure.redaction import redact, redacted, without_paths
from agentic_backend.telemetry.origin import OURS, package_of
from agentic_backend.telemetry.story import story_of

LONGEST_LINE = 4000
"""Characters of a line of the LogTail."""

_CONTEXT = ("request_id", "trace_id", "exchange_id", "session_id", "agent_id", "user_id")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_QUOTING_ALL = ("root", "mcp", "client")
_QUOTING = ("asyncio", "langchain_core.callbacks.manager")
_LONGEST_FOREIGN = 1_000
# What remains of each text and place, and how many of the places, where a line's exception is shortened.
_SHORT_TEXT, _FEW_FRAMES = 200, 2
# What the lines for people show in a form of their own.
_HEAD = ("time", "level", "logger", "message")


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the record's extras, and an exception's `story_of`.

    It redacts the secrets of this process's environment, further ones that it is given, and whatever looks like one.
    """

    def __init__(self, secrets: Collection[str] = ()) -> None:
        super().__init__()
        self._known = tuple(sorted({*secrets_of(), *secrets}, key=len, reverse=True))
        """The secrets in this process's environment and settings, the longest first, since one may be part of
        another.
        """

    def know(self, secrets: Collection[str]) -> None:
        """Redact these too from now on. Those of before are kept: what runs may still quote them."""
        # One assignment: other threads format meanwhile.
        self._known = tuple(sorted({*self._known, *secrets}, key=len, reverse=True))

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
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
        return "\n".join(map(printable, text.split("\n")))


class TailFormatter(JsonFormatter):
    """JSON of bounded length: what is too long is shortened in its exception, from the farthest cause on."""

    def rendered(self, line: Mapping[str, Any]) -> str:
        text = super().rendered(line)
        story = line.get("exception")
        if len(text) <= LONGEST_LINE or not isinstance(story, list):
            return text
        short = [_shortened(told) for told in story]
        while len(text := super().rendered({**line, "exception": short})) > LONGEST_LINE and short:
            short.pop()
        return text


def printable(line: str) -> str:
    """`line` without signs that a terminal would obey."""
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in line)


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
        text, words = told.get("text", ""), told.get("words", "")
        said = text if words in text else "; ".join(filter(None, (text, words)))
        yield f"{kind}: {said}".replace("\n", "\n    ") if said else kind
        yield from (f"    at {place}" for place in told["at"])


def _message_of(record: logging.LogRecord) -> str:
    # These loggers append an exception's text after the first line.
    if record.name in _QUOTING:
        return str(record.msg).partition("\n")[0]
    if package_of(record) in _QUOTING_ALL:
        # MCP's client, which also uses the root logger, quotes the server's data.
        return f"a library's message, not shown: {record.module}, line {record.lineno}"
    try:
        message = record.getMessage()
    except (TypeError, ValueError, KeyError):
        # The arguments don't match the format. Python's own report would quote them.
        message = str(record.msg)
    return message if package_of(record) == OURS else without_paths(message[:_LONGEST_FOREIGN])
