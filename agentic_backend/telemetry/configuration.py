"""Configuration: where this process logs to, in which form, and from which level on."""

import logging
import sys
import threading
from collections.abc import Collection
from logging.handlers import MemoryHandler
from typing import Any, Literal

from agentic_backend.telemetry.formatters import ConsoleFormatter, JsonFormatter
from agentic_backend.telemetry.ids import WithIds
from agentic_backend.telemetry.origin import OURS, OursOrWarnings
from agentic_backend.telemetry.stderr_handler import StderrHandler

log = logging.getLogger(__name__)

LogForm = Literal["auto", "json", "console"]

_MOST_HELD = 1_000


def hold_records() -> None:
    """Keep what is logged until `configure_logging` says in which form it is written."""
    # It is never full, and has nowhere to flush to.
    logging.getLogger().addHandler(MemoryHandler(_MOST_HELD, flushLevel=logging.CRITICAL + 1))


def is_holding_records() -> bool:
    return any(isinstance(handler, MemoryHandler) for handler in logging.getLogger().handlers)


def configure_logging(
    level: str, packages: Collection[str] = (), form: LogForm = "auto", secrets: Collection[str] = ()
) -> StderrHandler:
    """Log to standard error; records of the server and of `packages` from `level` up. Returns what writes there.

    No line has one of the `secrets`, nor of those in the environment. Nothing is left out of floods until
    `limits_floods` of what is returned is set: what a command or a start finds is told to the last.

    `form` is JSON lines, or lines for people; `auto` is for people if standard error is a terminal.
    Python's warnings and uncaught errors are logged too: Python's own output could quote anything.
    """
    for_people = form == "console" or (form == "auto" and sys.stderr.isatty())
    handler = StderrHandler(_descriptor(), ConsoleFormatter(secrets) if for_people else JsonFormatter(secrets))
    handler.limits_floods = False
    handler.addFilter(OursOrWarnings(packages))
    handler.addFilter(WithIds())
    root = logging.getLogger()
    held = [record for each in root.handlers if isinstance(each, MemoryHandler) for record in each.buffer]
    logging.basicConfig(handlers=[handler], force=True)
    set_log_level(level, packages)
    logging.captureWarnings(True)
    logging.raiseExceptions = False
    sys.excepthook = lambda _, error, __: log.critical("uncaught error", exc_info=error)
    sys.unraisablehook = lambda told: log.error("unraisable error", exc_info=told.exc_value)
    threading.excepthook = _log_of_a_thread
    for record in held:
        root.handle(record)
    return handler


def set_log_level(level: str, packages: Collection[str] = ()) -> None:
    """Log from `level` up from now on; the rest is as `configure_logging` has made it."""
    own, root = logging.getLevelName(level.upper()), logging.getLogger()
    root.setLevel(max(own, logging.WARNING))
    for handler in _handlers():
        handler.setLevel(own)
    for name in (OURS, *packages):
        logging.getLogger(name).setLevel(own)


def know_secrets(secrets: Collection[str]) -> None:
    """No line has one of these from now on, nor have the latest lines in memory."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, JsonFormatter):
            handler.formatter.know(secrets)


def log_lines_lost() -> int:
    """Lines of this process's log that were dropped, or that nobody could read any more."""
    return sum(handler.lines_lost for handler in _handlers())


def log_stalled_s() -> float:
    """For how long lines wait of which none could be written; 0 while they are written."""
    return max((handler.stalled_s for handler in _handlers()), default=0.0)


def _handlers() -> list[StderrHandler]:
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, StderrHandler)]


def _log_of_a_thread(told: Any) -> None:
    log.error("uncaught error in a thread", exc_info=told.exc_value)


def _descriptor() -> int:
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        # It is closed, or an object of somebody's in its place.
        return 2
