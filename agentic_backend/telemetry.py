"""Logs: structured JSON lines with the ids of what they speak of; never tokens, never message texts."""

import logging
import re
import sys
import traceback
from collections.abc import Iterable

import orjson

from agentic_backend.protocol.messages import utc_now

_CONTEXT = ("request_id", "exchange_id", "session_id", "agent_id", "user_id")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SECRETS = re.compile(
    r"(?i)(bearer\s+|[?&](?:access_)?token=)[^\s\"'&]+"
    r"|eyJ[\w-]+\.[\w-]+\.[\w-]*"
    r"|\b(?:sk|pk|ghp|xox[bp])[-_][\w-]{8,}"
    r"|\bdev:[\w.@-]+(?::\d+)?"
)


def redact(text: str) -> str:
    """`text` without what looks like a token, a key or a password in a URL."""
    return _SECRETS.sub(lambda match: (match[1] or "") + "[redacted]", text)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the record's extras, and an exception's story."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": utc_now().isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        extras = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        line |= {key: extras.pop(key) for key in _CONTEXT if key in extras}
        line |= {key: redact(value) if isinstance(value, str) else value for key, value in extras.items()}
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = story_of(record.exc_info[1])
        return orjson.dumps(line, default=str).decode()


def story_of(error: BaseException) -> list[dict[str, object]]:
    """`error` and its causes: types and places. Not their texts: these may quote a message or a token."""
    story: list[dict[str, object]] = []
    current: BaseException | None = error
    while current is not None and len(story) < 8:
        frames = traceback.extract_tb(current.__traceback__)
        places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-12:]]
        story.append({"type": f"{type(current).__module__}.{type(current).__qualname__}", "at": places})
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return story


def error_text(error: BaseException, hidden: Iterable[str]) -> str:
    """The text of a foreign exception for the log: redacted, shortened, and without the `hidden` texts."""
    text = str(error)
    for secret in hidden:
        if len(secret) >= 3:
            text = text.replace(secret, "[text]")
    return redact(text)[:500]


def configure_logging(level: str) -> None:
    """Send everything to standard error as JSON lines. uvicorn's access lines are off: they hold query strings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in ("uvicorn.access", "uvicorn.error", "httpx", "openai", "sse_starlette", "aiosqlite", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
