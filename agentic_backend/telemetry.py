"""Logs: structured JSON lines with the ids of what they speak of; never tokens, never message texts."""

import json
import logging
import re
import sys
import traceback

from agentic_backend.protocol.messages import utc_now

_CONTEXT = ("request_id", "exchange_id", "session_id", "agent_id", "user_id")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_QUOTING = ("asyncio", "langchain_core.callbacks.manager")
_SECRETS = re.compile(
    r"(?i)(bearer\s+|[?&](?:access_)?token=)[^\s\"'&]+"
    r"|eyJ[\w-]+\.[\w-]+\.[\w-]*"
    r"|\b(?:sk|pk|ghp|xox[bp])[-_][\w-]{8,}"
    r"|\bdev:[\w.@-]+(?::\d+)?"
    r"|(?<=://)[^\s/@]+(?=@)"
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
            "message": redact(_message_of(record)),
        }
        extras = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        line |= {key: extras.pop(key) for key in _CONTEXT if key in extras}
        line |= {key: redact(value) if isinstance(value, str) else value for key, value in extras.items()}
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = story_of(record.exc_info[1])
        # In ASCII, because a line must come out whatever its texts hold, lone surrogates too.
        return json.dumps(line, default=str, separators=(",", ":"))


def _message_of(record: logging.LogRecord) -> str:
    # These put the texts of exceptions into their lines; what they are about stands before.
    if record.name in _QUOTING:
        return str(record.msg).partition("\n")[0]
    if record.name == "root":
        # No module of ours logs there; MCP's client does, quoting whatever a server has sent.
        return f"a library's message, not shown: {record.module}, line {record.lineno}"
    return record.getMessage()


def story_of(error: BaseException) -> list[dict[str, object]]:
    """`error` and its causes: types, places, status codes. Not their texts: these may quote a message or a token."""
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


def configure_logging(level: str) -> None:
    """Send everything to standard error as JSON lines. uvicorn's access lines are off: they hold query strings.

    Only the server itself goes below `info`: in their debug lines libraries quote requests, and so messages.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level="INFO" if level == "debug" else level.upper(), handlers=[handler], force=True)
    logging.getLogger("agentic_backend").setLevel(level.upper())
    for name in (
        "uvicorn.access",
        "uvicorn.error",
        "httpx",
        "openai",
        "sse_starlette",
        "aiosqlite",
        "asyncio",
        "mcp",
        "client",
    ):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
