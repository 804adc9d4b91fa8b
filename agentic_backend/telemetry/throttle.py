"""Throttle: limits the log records of one kind, and tells how many it has left out.

A kind is what would be one row in a list of causes: logger, level and message, the fields that name a cause, the type
of an exception and the line that raised it. So a second cause is shown, however often the first one comes. Ids of
exchanges, users and requests are no part of it. What an exchange leaves at level info passes: `limits` bound how many
there are, and each is told about itself alone.

Invariant: records that passed and the counts of the summaries add up to all records. At most _KINDS kinds are counted
apart; further ones share a kind with the others of their logger and level.
"""

import logging
import math
import re
import threading
import time
import traceback
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from agentic_backend.system_errors import causes_of, traceback_of
from agentic_backend.telemetry.origin import OURS, package_of

SUPPRESSED = "log lines suppressed"
"""The event that tells how many records were left out."""

_MOST, _WINDOW_S, _KINDS = 20, 60.0, 1_000
_CAUSES = ("code", "reason", "error", "operation", "purpose", "mcp_server", "agent_id", "tool", "chore", "chat_module")
_EXCHANGES = ("exchange_id", "session_id")
_LONGEST = 200


@dataclass(slots=True)
class _Kind:
    first: logging.LogRecord
    """The record that began the window, without what it holds on to."""
    until: float
    """When the window ends, as `clock`."""
    passed: int = 0
    left_out: int = 0
    """Occurrences: a record may tell of several in its field `count`."""


class Throttle(logging.Filter):
    """Passes the first _MOST records of each kind in _WINDOW_S seconds. Owned by one handler; safe in threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.RLock()
        """Its thread may take it again: a line may be logged in between, see throttled_handler."""
        self._kinds: dict[Hashable, _Kind] = {}
        self._due = math.inf
        """When the first window ends."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.CRITICAL or _is_of_an_exchange(record):
            return True
        key = _kind_of(record)
        with self._lock:
            if key not in self._kinds and len(self._kinds) >= _KINDS:
                key = (record.name, record.levelno)
            kind = self._kinds.get(key)
            if kind is None:
                kind = self._kinds[key] = _Kind(_bare(record), self._clock() + _WINDOW_S)
                self._due = min(self._due, kind.until)
            if kind.passed < _MOST:
                kind.passed += 1
                return True
            kind.left_out += getattr(record, "count", 1)
        return False

    def summaries(self, *, at_end: bool = False) -> list[logging.LogRecord]:
        """A record for each kind whose window has ended, or for every kind `at_end`, that has left something out.

        Call it now and then, because it also forgets what has ended.
        """
        now = self._clock()
        with self._lock:
            if now < self._due and not at_end:
                return []
            over = [(key, kind) for key, kind in list(self._kinds.items()) if at_end or now >= kind.until]
            ended = [kind for key, kind in over if self._kinds.pop(key, None) is kind]
            self._due = min((kind.until for kind in list(self._kinds.values())), default=math.inf)
        return [_summary(kind) for kind in ended if kind.left_out]


def _is_of_an_exchange(record: logging.LogRecord) -> bool:
    is_of_one = any(getattr(record, name, None) for name in _EXCHANGES)
    return is_of_one and record.levelno == logging.INFO and package_of(record) == OURS


def _kind_of(record: logging.LogRecord) -> Hashable:
    # Other packages often write what differs into the message itself.
    text = str(record.msg)[:_LONGEST]
    message = text if record.args or package_of(record) == OURS else re.sub(r"\d+", "0", text)
    causes = tuple(str(getattr(record, name))[:_LONGEST] for name in _CAUSES if hasattr(record, name))
    return record.name, record.levelno, message, causes, _raised(record)


def _raised(record: logging.LogRecord) -> Hashable:
    """The types of an exception and its causes, and the line that raised the last of them."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return None
    chain = list(causes_of(error))[:8]
    last = list(traceback.walk_tb(traceback_of(chain[-1])))[-1:]
    return tuple(map(type, chain)), tuple((frame.f_code.co_filename, line) for frame, line in last)


def _bare(record: logging.LogRecord) -> logging.LogRecord:
    causes = {name: getattr(record, name) for name in _CAUSES if hasattr(record, name)}
    told = {"name": record.name, "levelno": record.levelno, "levelname": record.levelname, "msg": str(record.msg)}
    return logging.makeLogRecord({**causes, **told})


def _summary(kind: _Kind) -> logging.LogRecord:
    told = {"suppressed": kind.first.msg[:_LONGEST], "count": kind.left_out, "seconds": round(_WINDOW_S)}
    return logging.makeLogRecord({**vars(kind.first), **told, "msg": SUPPRESSED, "created": time.time()})
