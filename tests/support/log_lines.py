"""Lines of a log in JSON, as a process writes them to standard error."""

import json
import logging
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

_SLOWNESS = ("store answers late", "the broadcast answers late", "model answers late", "code blocks the event loop")
"""What is logged of a machine that is slow, whatever a test does."""


def warnings_of(records: Iterable[logging.LogRecord]) -> list[logging.LogRecord]:
    """Those from warnings on, but for what a slow machine is told of."""
    return [each for each in records if each.levelno >= logging.WARNING and each.message not in _SLOWNESS]


def surprising(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same of lines in JSON."""
    return [line for line in lines if line["level"] not in ("debug", "info") and line["message"] not in _SLOWNESS]


def log_lines(text: str) -> list[dict[str, Any]]:
    """All lines; fails if one is no JSON."""
    return [json.loads(line) for line in text.splitlines()]


def problems(text: str) -> list[str]:
    """What is wrong with a configuration, in all lines that tell of that."""
    return [line["problem"] for line in log_lines(text) if "problem" in line]


def reasons(text: str) -> list[str]:
    """Why the server can't start."""
    return [line["reason"] for line in log_lines(text) if line["message"] == "server can't start"]


@contextmanager
def logging_as_before() -> Iterator[None]:
    """For what configures the log of the process: afterwards it is as it was."""
    root, ours = logging.getLogger(), logging.getLogger("agentic_backend")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    hooks = sys.excepthook, sys.unraisablehook, threading.excepthook, logging.raiseExceptions
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        root.setLevel(levels[0])
        ours.setLevel(levels[1])
        sys.excepthook, sys.unraisablehook, threading.excepthook, logging.raiseExceptions = hooks
